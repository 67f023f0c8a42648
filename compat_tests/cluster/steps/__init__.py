"""The steps of the ladder: trials of several nodes, each with what must hold and what is measured.

A step takes a running cluster, asserts what must hold, and returns its figures. The same steps run
short in CI (`compat_tests/cluster/test_ladder*.py`), long for the published table
(`python -m bench.cluster`), and shuffled in the soak (`python -m compat_tests.cluster.soak`).

| step | module |
| --- | --- |
| 1 start, 2 steady load | `production` |
| 3 kill of a leader, 4 of the active controller, 5 of all; equal replicas | `kills` |
| 6 SIGSTOP; a minority | `suspensions` |
| 7 cuts, 8 slow follower | `network` |
| 9 failing and slow disks | `disks` |
| 10 rolling restart | `restarts` |
| 11 reassignments | `reassignments` |
| 12 voters | `voters` |
| 13 coordinators | `coordinators` |
| 14 racks | `racks` |
| 15 exchange with Apache Kafka | `exchange` |
"""
