"""What is kept for the next call is kept by each thread for itself."""

from concurrent.futures import ThreadPoolExecutor

from distir.ir.per_thread import kept_per_thread


def test_a_thread_finds_what_it_made_and_no_other_does():
    made = kept_per_thread(2)(lambda key: [key])
    first = made("a")
    assert made("a") is first
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(made, "a").result()
        assert theirs == first
        assert theirs is not first
        assert other.submit(made, "a").result() is theirs
    made.cache_clear()
    assert made("a") is not first
