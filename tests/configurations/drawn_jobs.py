"""Jobs that are drawn for a format: of values that it says it runs, and of degrees and sizes that fit each other."""

from random import Random

from distir.configurations import Job
from distir.configurations.jobs import normal
from distir.configurations.models import flavor_of
from distir.models import PUBLISHED
from distir.transform.pipeline import SCHEDULES

MODELS = ("llama2-7b", "llama3-8b", "llama3-70b", "llama3-405b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b")
MODULES = {"moe": "experts", "moe_act": "experts", "shared_experts": "shared_experts", "mla_up_proj": "latent"}


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
    dp, tp, cp, pp = one("dp", 1, 2, 4, 8), one("tp", 1, 2, 4), one("cp", 1, 1, 2), one("pp", 1, 1, 2, 4)
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
    ep = one("ep", 1, 2, 4) if model.experts and dp % 4 == 0 else 1
    compiled, sequence = one("compile", False, True), one("sequence_parallel", True, False)
    job = Job(
        name=name,
        model=model,
        seq=random.choice((1024, 4096, 8192)),
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=ep,
        etp=of_all("etp", random.choice((1, tp))) if ep > 1 and tp > 1 else 0,
        virtual=virtual,
        schedule=schedule,
        stages=stages,
        sequence_parallel=sequence,
        zero=zero,
        shard=2 if zero and pp == 1 and dp > 2 and random.random() < 0.2 else 0,
        micro_batch=micro,
        global_batch=micro * dp * pp * rounds,
        optimizer=of_all("optimizer", ""),
        precision=of_all("precision", "bf16"),
        gradients=of_all("gradients", ""),
        attention=of_all("attention", ""),
        recompute=recompute,
        offload=one("offload", 0, 0, 0, 4),
        state_on_host=one("state_on_host", False, False, False, True),
        compile=compiled,
        async_tp=one("async_tp", False, False, sequence and (compiled or "compile" in form.runs)),
        overlap=one("overlap", True, False) and (zero > 0 or form.framework == "megatron"),
        gathers_logits=one("gathers_logits", False, False, True),
    )
    return normal(job)
