"""The helper process: runs record jobs beside the node's loop (`python -m barnabas.log.helper`).

All kinds of helpers are this one program: examining the records of a produced batch
(`log.record_work`), cleaning a log (`log.compaction`) and checking a log for bit rot
(`log.scrubbing`). They differ in priority and limits, which the node passes as arguments. Jobs and
answers travel as frames (`log.helper_framing`) on stdin and stdout. The node's side is
`barnabas.server.storage.helper_pool`.
"""
