"""Records a second of record chains in one process, without Spark: `python -m bench.record_chain`.

Each chain copies records of 200 bytes: bytes, converter, transformations, converter, bytes.
"""

import cProfile
import json
import pstats
import sys
import time

from barnabas.pipeline.connect.record_chain import RecordChain, build_record_chain
from barnabas.pipeline.data.records import CREATE_TIME, RawRecord

RECORDS = 50_000
ROUNDS = 3
_TRANSFORMS = {
    "transforms": "insert,mask",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.topic.field": "source",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
}
_KEYS = {"key.converter": "StringConverter"}
CHAINS = {
    "strings": {**_KEYS, "value.converter": "StringConverter"},
    "json": {
        **_KEYS,
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    },
    "json with schemas": {**_KEYS, "value.converter": "JsonConverter"},
}
CHAINS |= {
    f"{name}, 2 transforms": {**props, **_TRANSFORMS}
    for name, props in CHAINS.items()
    if name != "strings"
}

_FIELDS = {"id": "int64", "name": "string", "card": "string", "amount": "double", "note": "string"}


def payload(number: int) -> dict[str, object]:
    return {
        "id": number,
        "name": f"customer {number}",
        "card": "4000-1234-5678-9010",
        "amount": number / 7,
        "note": "x" * 90,
    }


def raw_records(name: str) -> list[RawRecord]:
    schema = {
        "type": "struct",
        "fields": [
            {"type": kind, "optional": False, "field": field} for field, kind in _FIELDS.items()
        ],
        "optional": False,
    }
    made: list[RawRecord] = []
    for number in range(1000):
        value: object = payload(number)
        if "schemas" in name:
            value = {"schema": schema, "payload": value}
        data = json.dumps(value, separators=(",", ":")).encode()
        made.append(RawRecord("in", 0, number, 1, CREATE_TIME, b"key", data))
    return made


def run(chain: RecordChain, records: list[RawRecord]) -> float:
    copied = chain.copied
    started = time.process_time()
    for _ in range(RECORDS // len(records)):
        for record in records:
            copied(record, "out")
    return RECORDS / (time.process_time() - started)


def main() -> None:
    """Print records per CPU second of each chain, the best of some rounds; `--profile` for one."""
    if "--profile" in sys.argv:
        chain, records = build_record_chain(CHAINS["json, 2 transforms"]), raw_records("json")
        profile = cProfile.Profile()
        profile.runcall(run, chain, records)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return
    for name, props in CHAINS.items():
        chain, records = build_record_chain(props), raw_records(name)
        best = max(run(chain, records) for _ in range(ROUNDS))
        print(f"{name:30} {best:10,.0f} records per CPU second")


if __name__ == "__main__":
    main()
