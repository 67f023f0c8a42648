"""The order of Java's hash maps; the expected orders were printed by a JVM."""

import pytest

from barnabas.pipeline.data.java_values import hash_order


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("d.e,a.b", "a.b,d.e"),
        ("a.b,b,c", "b,c,a.b"),
        ("Aa,BB,x", "Aa,BB,x"),
        ("BB,Aa,x", "BB,Aa,x"),
        ("z,y,x,w,v,u,t,s,r,q,p,o,n", "n,o,p,q,r,s,t,u,v,w,x,y,z"),
        ("p\U0001f600,a,b", "a,b,p\U0001f600"),
    ],
)
def test_hash_order_names_come_as_java_iterates_them(names: str, expected: str):
    assert ",".join(hash_order(names.split(","))) == expected


def test_hash_order_null_comes_first():
    assert hash_order(["a", None]) == (None, "a")
