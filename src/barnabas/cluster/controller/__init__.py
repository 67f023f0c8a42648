"""The active controller: each operation takes the image and a request and gives records.

Nothing here changes the image; the records are committed by the quorum and then replayed.
"""
