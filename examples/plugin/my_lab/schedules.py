"""A schedule to compare others with: a microbatch goes through all stages and back before the next one begins."""

from distir.transform import Pass, Task, schedule


@schedule("one-by-one")
def one_by_one(devices, microbatches, virtual):
    """No two devices ever work at the same time; one microbatch is in flight."""
    return tuple(
        tuple(Task(device, k, kind) for k in range(microbatches) for kind in (Pass.FORWARD, Pass.BACKWARD))
        for device in range(devices)
    )
