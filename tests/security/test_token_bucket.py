"""The token bucket of quotas of partitions, as Kafka's `TokenBucketTest`."""

from barnabas.security.token_bucket import TokenBucket


def test_new_bucket_has_the_tokens_of_all_windows() -> None:
    bucket = TokenBucket(10, 1000, 0)
    bucket.take(50, 5, 0)
    assert bucket.throttle_ms(5, 0) == 0
    bucket.take(1, 5, 0)
    assert bucket.throttle_ms(5, 0) == 200


def test_bucket_is_refilled_at_the_rate_of_the_quota() -> None:
    bucket = TokenBucket(10, 1000, 0)
    bucket.take(60, 5, 0)
    assert bucket.throttle_ms(5, 0) == 2000
    assert bucket.throttle_ms(5, 1500) == 500
    assert bucket.throttle_ms(5, 2000) == 0
    bucket.take(5, 5, 3000)
    assert bucket.throttle_ms(5, 3000) == 0
    bucket.take(1, 5, 3000)
    assert bucket.throttle_ms(5, 3000) == 200


def test_bucket_holds_no_more_than_all_windows() -> None:
    bucket = TokenBucket(2, 1000, 0)
    bucket.take(1, 5, 0)
    bucket.take(11, 5, 1_000_000)
    assert bucket.throttle_ms(5, 1_000_000) == 200


def test_tokens_that_are_left_hold_under_another_quota() -> None:
    bucket = TokenBucket(10, 1000, 0)
    bucket.take(60, 5, 0)
    assert bucket.throttle_ms(1, 0) == 10_000
    assert bucket.throttle_ms(1e-9, 0) == (1 << 31) - 1
