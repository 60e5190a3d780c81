"""Jobs that are drawn for a format: of values that it says it runs, and of degrees and sizes that fit each other."""

from dataclasses import fields, replace
from random import Random

from distir.configurations import Job
from distir.configurations.jobs import normal, overlapping
from distir.configurations.models import flavor_of
from distir.models import PUBLISHED
from distir.transform.pipeline import SCHEDULES
from distir.transform.strategy.partial import LOSS, Partial, of_precision, of_recomputation, partial
from distir.transform.strategy.record import virtual_of
from distir.validate.frameworks import FRAMEWORKS
from distir.validate.strategies import usual_of

MODELS = ("llama2-7b", "llama3-8b", "llama3-70b", "llama3-405b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b")
MODULES = {"moe": "experts", "moe_act": "experts", "shared_experts": "shared_experts", "mla_up_proj": "latent"}


OWN = {field.name for field in fields(Job)}


def job_of(**given):
    """A job by its own fields, and by those of its strategy as a job is stated, in bfloat16."""
    return changed(Job(), **{"precision": "bf16", **given})


def changed(job, **given):
    """A job with others of these fields."""
    said = {name: value for name, value in given.items() if name not in OWN}
    beside = said.pop("overlap", job.overlaps), said.pop("async_tp", job.async_tp)
    several = of_precision(said.pop("precision")) if "precision" in said else {}
    several |= of_recomputation(said.pop("recompute")) if "recompute" in said else {}
    if "virtual" in said:
        said["virtual"] = virtual_of(said.get("schedule", job.strategy.schedule), said["virtual"])
    several = {name: value for name, value in several.items() if value is not None}
    job = replace(job, **{name: value for name, value in given.items() if name in OWN})
    return job.saying(**{**said, **several, **overlapping(*beside)})


def as_run(job, framework):
    """A job whose strategy is complete: what it does not say is as its framework does."""
    usual, job = usual_of(FRAMEWORKS[framework]), normal(job)
    return replace(job, said=Partial()), job.said.completed(usual)


def drawn(form, random: Random) -> Job:
    """A job of values that a format runs, which does not say that they go together."""

    def one(field, *usual):
        return random.choice([value for value in usual if value in form.runs.get(field, usual)] or form.runs[field])

    def of_all(field, usual):
        """Any value that the format runs, most often the usual one."""
        values = form.runs.get(field, (usual,))
        return usual if usual in values and random.random() < 0.7 else random.choice(values)

    name = random.choice([name for name in MODELS if form.framework != "torchtitan" or flavor_of(name)])
    model = PUBLISHED[name]
    dp, tp, cp, pp = (
        one("data", 1, 2, 4, 8),
        one("tensor", 1, 2, 4),
        one("context", 1, 1, 2),
        one("pipeline", 1, 1, 2, 4),
    )
    pp = pp if model.layers % pp == 0 else 1
    zero = of_all("zero", random.choice((0, 1, 2, 3))) if dp * cp > 1 else 0
    schedule = of_all("schedule", random.choice(("1f1b", "interleaved"))) if pp > 1 else "1f1b"
    virtual = SCHEDULES[schedule].stages if pp > 1 else 1
    if model.layers % (pp * virtual):
        schedule, virtual = "1f1b", 1
    micro, rounds = random.randint(1, 4), random.randint(1, 4)
    stages = ()
    if pp > 1 and "stages" not in form.runs and random.random() < 0.3:
        each = model.layers // (pp * virtual)
        stages = (each - 1, *[each] * (pp * virtual - 2), each + 1)
    recompute = of_all("recompute", "none")
    module = recompute.partition(":")[2]
    if recompute.startswith("modules:") and not getattr(model, MODULES.get(module, "layers")):
        recompute = "none"
    if module == "mlp" and model.experts:
        recompute = "none"
    ep = one("expert_parallel", 1, 2, 4) if model.experts and dp % 4 == 0 else 1
    compiled, sequence = one("fuse", False, True), one("sequence", True, False)
    seq = random.choice((1024, 4096, 8192))
    etp = of_all("etp", random.choice((1, tp))) if ep > 1 and tp > 1 else 0
    shard = 2 if zero and pp == 1 and dp > 2 and random.random() < 0.2 else 0
    optimizer, precision, gradients = of_all("optimizer", ""), of_all("precision", "bf16"), of_all("gradients", "auto")
    attention, offloaded = of_all("attention", ""), one("offloaded", 0, 0, 0, 4)
    on_host = one("state_on_host", False, False, False, True)
    products = one("async_tp", False, False, sequence and (compiled or "fuse" in form.runs))
    beside = one("overlap", True, False) and (zero > 0 or form.framework == "megatron")
    job = Job(
        name=name,
        model=model,
        seq=seq,
        said=partial(
            data=dp,
            tensor=tp,
            pipeline=pp,
            context=cp,
            expert_parallel=ep,
            etp=etp,
            virtual=virtual_of(schedule, virtual),
            schedule=schedule,
            stages=stages,
            sequence=sequence,
            zero=zero,
            shard=shard,
            optimizer=optimizer or None,
            gradients=None if gradients == "auto" else gradients,
            offloaded=offloaded,
            state_on_host=on_host,
            fuse=compiled,
            whole=one("whole", (), (), LOSS),
            **of_precision(precision),
            **of_recomputation(recompute),
            **overlapping(beside, products),
        ),
        micro_batch=micro,
        global_batch=micro * dp * pp * rounds,
        attention=attention,
    )
    return normal(job)
