"""The active controller: each operation takes the image and a request and returns records.

Nothing here changes the image: the quorum commits the records, and every node replays them.
"""
