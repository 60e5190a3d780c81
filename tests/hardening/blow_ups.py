"""Files of at most 10 kB that ask for much: what nests, repeats, refers to itself, multiplies, or is long.

`BLOW_UPS`: by name the words of a command, in which `FILE` stands for the file; the file's name; its content. `SIZE` is
how many bytes a text may have, of which what repeats fills most.
"""

import json

SIZE = 9_000
GPUS = ("--hardware", "dgx-h100", "--gpus", "8")
T = "tensor<4x4xf32>"
X = "Tensor[Float32, (8, 8), 1]"
BLOW_UPS = {}


def blow_up(file, *words):
    """Register a function that makes the content of such a file."""

    def registered(function):
        content = function()
        content = content.encode() if isinstance(content, str) else content
        assert len(content) <= 10_000, function.__name__
        BLOW_UPS[function.__name__] = (words, file, content)
        return function

    return registered


def repeated(piece, size=SIZE):
    """As many of a text as fit; `#` is a number."""
    parts, length, number = [], 0, 0
    while length < size:
        parts.append(piece.replace("#", str(number)))
        length += len(parts[-1])
        number += 1
    return "".join(parts[:-1])


def program(body, params=f"%x: {X}"):
    return f"func @main({params}) {{\n{body}  return %x\n}}\n"


def mlir(body, rest="", returned="%arg0"):
    head = f"  func.func public @main(%arg0: {T}) -> {T} {{\n"
    return f"module {{\n{head}{body}    return {returned} : {T}\n  }}\n{rest}}}\n"


def call_tree(leaf, levels=40):
    """Functions that call the one below twice."""
    parts = []
    for i in range(levels):
        calls = "".join(f"    %{j} = call @f{i + 1}(%{a}) : ({T}) -> {T}\n" for j, a in enumerate(("arg0", "0")))
        parts.append(f"  func.func private @f{i}(%arg0: {T}) -> {T} {{\n{calls}    return %1 : {T}\n  }}\n")
    parts.append(f"  func.func private @f{levels}(%arg0: {T}) -> {T} {{\n{leaf}    return %0 : {T}\n  }}\n")
    return mlir(f"    %0 = call @f0(%arg0) : ({T}) -> {T}\n", "".join(parts), "%0")


# Programs.


@blow_up("a.dir", "check", "FILE")
def dimensions_multiplied():
    dims = ", ".join(f"A{i}+B{i}+C{i}+1" for i in range(40))
    return f"func @main(%x: Tensor[Float32, ({dims}), 1]) {{\n  %y = Flatten(%x)\n  %z = Shape(%y)\n  return %y\n}}\n"


@blow_up("a.dir", "check", "FILE")
def one_dimension_of_many_factors():
    return program("", "%x: Tensor[Float32, (" + "*".join(["(A+B+1)"] * 1_000) + ",), 1]")


@blow_up("a.dir", "check", "FILE")
def a_power_of_a_dimension():
    return program("", "%x: Tensor[Float32, (" + ", ".join(["*".join(["A"] * 200)] * 20) + "), 1]").replace(
        "return %x", "%y = Flatten(%x)\n  return %y"
    )


@blow_up("a.dir", "check", "FILE")
def a_collective_of_many_devices():
    count = 160
    params = ", ".join(f"%x{i}: Tensor[Float32, (8, 8), {i}]" for i in range(1, count))
    names = [f"%x{i}" for i in range(1, count)]
    results = ", ".join(name.replace("x", "r") for name in names)
    return f"func @main({params}) {{\n  {results} = MPIAllreduce({', '.join(names)})\n  return %r1\n}}\n"


@blow_up("a.dir", "check", "FILE")
def operands_on_many_devices():
    params = ", ".join(f"%x{i}: Tensor[Float32, (8, 8), {i}]" for i in range(1, 180))
    return program(f"  %x = Concat[axis = 0]({', '.join(f'%x{i}' for i in range(1, 180))})\n", params)


@blow_up("a.dir", "check", "FILE")
def operands_of_many_types():
    params = ", ".join(f"%x{i}: Tensor[{'Int64' if i % 2 else 'Float32'}, (8, {i}), 1]" for i in range(170))
    return program(f"  %x = Concat[axis = 0]({', '.join(f'%x{i}' for i in range(170))})\n", params)


@blow_up("a.dir", "check", "FILE")
def undefined_names():
    return program(f"  %r = Concat[axis = 0]({repeated('%u#, ')}%x)\n")


@blow_up("a.dir", "check", "FILE")
def unknown_attributes():
    return program(f"  %r = Relu[{repeated('a# = 1, ')}b = 1](%x)\n")


@blow_up("a.dir", "check", "FILE")
def comments_and_mistakes():
    return program(repeated("  %a# = Reluu(%b#) // %c#\n"))


@blow_up("a.dir", "check", "FILE")
def open_brackets():
    return program(f"  %y = Relu({'(' * SIZE}\n")


@blow_up("a.dir", "check", "FILE")
def quotients_of_products():
    total = "(" + "+".join(f"A{i}" for i in range(14)) + ")"
    return program("", f"%x: Tensor[Float32, ({'*'.join([total] * 80)}/2, {'*'.join(['(A+B)'] * 60)}/3), 1]")


@blow_up("a.dir", "check", "FILE")
def sizes_of_reshaped_products():
    dims = ", ".join(f"A{i}+{i + 1}*B{i}" for i in range(30))
    reshaped = "".join(f"  %y{i} = Flatten[axis = {i}](%x)\n  %s{i} = Size(%y{i})\n" for i in range(30))
    return program(reshaped, f"%x: Tensor[Float32, ({dims}), 1]")


@blow_up("a.dir", "check", "FILE")
def differences_that_cancel():
    factors = "*".join(f"(A{i}-A{i + 1})" for i in range(200))
    return program("", f"%x: Tensor[Float32, ({'-'.join(f'A{i}' for i in range(700))}+{factors},), 1]")


@blow_up("a.dir", "check", "FILE")
def nested_types():
    return program("", "%x: " + "Tuple[" * 1_400 + "Float32" + "]" * 1_400)


@blow_up("a.dir", "check", "FILE")
def repeats_of_ranges():
    return program("".join(f"  repeat 65536 times {{\n    [%a{i}_{{1..65536}}] = Relu(%x)\n  }}\n" for i in range(150)))


@blow_up("a.dir", "check", "FILE")
def a_mesh_of_many_axes():
    names = [f"a{i}" for i in range(62)]
    mesh = ", ".join(f"{name} = 2" for name in names)
    return f"func @main(%x: Tensor[Float32, (8@({', '.join(names)}), 8), 1]) mesh ({mesh}) {{\n  return %x\n}}\n"


@blow_up("a.dir", "expand", "FILE")
def blocks_of_a_placement():
    placed = f"2500@dp[{', '.join(['1'] * 2_500)}]"
    return f"func @main(%x: Tensor[Float32, ({placed}, 8), 1]) mesh (dp = 2) {{\n  return %x\n}}\n"


@blow_up("a.dir", "run", "FILE")
def a_result_of_many_elements():
    return f"func @main() {{\n  %y = ConstantOfShape[value = [1.0]]([{2**62}, 4])\n  return %y\n}}\n"


@blow_up("a.dir", "check", "FILE")
def tuples_that_double():
    body = "".join(f"  %t{i} = MakeTuple(%t{i - 1}, %t{i - 1})\n" for i in range(1, 200))
    return f"func @main(%t0: {X}) {{\n{body}  return %t199\n}}\n"


@blow_up("a.dir", "check", "FILE")
def calls_that_double():
    parts = [f"func @f{i}(%x) {{\n  %a = @f{i + 1}(%x)\n  %y = @f{i + 1}(%a)\n  return %y\n}}\n" for i in range(120)]
    return program("  %y = @f0(%x)\n") + "".join(parts) + "func @f120(%x) {\n  %y = Relu(%x)\n  return %y\n}\n"


@blow_up("a.dir", "check", "FILE")
def a_long_number():
    return program(f"  %y = Constant[value = {'9' * SIZE}]()\n")


# Settings and profiles.


@blow_up("distir.toml", "check", "FOLDER")
def unknown_settings():
    return repeated("k# = 1\n")


@blow_up("distir.toml", "check", "FOLDER")
def nested_lists():
    return "x = " + "[" * 4_000 + "]" * 4_000


@blow_up("distir.toml", "check", "FOLDER")
def dotted_tables():
    return "[" + ".".join("a" * 80) + "]\n" + repeated("[[b]]\n[b.c]\n")


@blow_up("h.toml", "hardware", "FILE")
def a_profile_of_unknown_keys():
    return repeated("[levels.l#]\nx = 1\n")


@blow_up("h.toml", "hardware", "FILE")
def a_profile_of_long_numbers():
    return f'name = "a"\nmemory = "{"9" * SIZE}GB"\n'


# Configurations of frameworks.


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def aliases_of_mappings():
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(9))}}}" for i in range(1, 60)]
    return "\n".join(lines) + "\n"


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def merged_mappings():
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 60)]
    return "\n".join(lines) + "\n"


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def an_alias_of_itself():
    return "a: &a\n  b: *a\n" + repeated("k#: *a\n")


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def aliases_of_lists():
    lines = ["a0: &a0 [x, y]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 60)]
    return "\n".join([*lines, "model: {num_layers: *a59}"]) + "\n"


@blow_up("a.yaml", "import", "megatron-bridge", "FILE", *GPUS)
def aliases_as_keys():
    return "a: &a {b: 1}\n" + repeated("? *a\n: *a\n") + "? [[[[1]]]]\n: 2\n"


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def a_long_number_of_yaml():
    return "model:\n  num_layers: " + "9" * SIZE + "\n"


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def a_number_to_the_base_of_60():
    return "model:\n  num_layers: " + "59:" * 2_900 + "1\n"


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def a_long_hexadecimal_number():
    return "model:\n  num_layers: 0x" + "f" * SIZE + "\n"


@blow_up("a.yaml", "import", "nemo", "FILE", *GPUS)
def nested_yaml():
    return "a: " + "[" * 4_000 + "]" * 4_000


@blow_up("a.json", "import", "deepspeed", "FILE", *GPUS)
def unknown_options():
    return "{" + repeated('"k#": 1, ') + '"z": 1}'


@blow_up("a.json", "import", "deepspeed", "FILE", *GPUS)
def nested_json():
    return '{"a":' * 1_800


@blow_up("a.json", "import", "deepspeed", "FILE", *GPUS)
def open_comments():
    return "{" + "/*" * 4_000


@blow_up("a.toml", "import", "torchtitan", "FILE", *GPUS)
def a_long_number_of_toml():
    return '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 0x' + "f" * SIZE + "\n"


@blow_up("a.toml", "import", "torchtitan", "FILE", *GPUS)
def unknown_tables():
    return repeated("[t#]\nk = 1\n")


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def arrays_that_multiply():
    lines = ["A0=(--x --x --x --x)"]
    lines += [f"A{i}=({' '.join(['${A' + str(i - 1) + '[@]}'] * 8)})" for i in range(1, 70)]
    return "\n".join([*lines, "python pretrain_gpt.py ${A69[@]}"]) + "\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def variables_that_multiply():
    lines = ["A0=aaaaaaaa", *(f'A{i}="{("$A" + str(i - 1)) * 8}"' for i in range(1, 150))]
    return "\n".join([*lines, "python pretrain_gpt.py --num-layers $A149"]) + "\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def variables_that_grow():
    return "A=(--x)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 300 + "python pretrain_gpt.py ${A[@]}\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def sums_that_grow():
    return "A=9\n" + "A=$(($A*$A))\n" * 600 + "python pretrain_gpt.py --num-layers $A\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def replacements_that_grow():
    return "A=aaaaaaaa\n" + "A=${A//a/aaaaaaaa}\n" * 450 + "python pretrain_gpt.py --num-layers $A\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def functions_that_double():
    functions = "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}\n" for i in range(200))
    return functions + "f200() { A+=(--x); }\nf0\npython pretrain_gpt.py ${A[@]}\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def loops_that_do_not_end():
    loops = "for i in $(seq 1 1000000000); do A+=(--x $i); done\nwhile true; do B=$B$B; done\n"
    return loops + "python pretrain_gpt.py --num-layers {1..999999999} ${A[@]} $B $((9**9**9**9)) $((1<<99999999999))\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def open_quotes():
    return 'A="\n' + "b\n" * 4_400


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def defaults_of_defaults():
    return "python pretrain_gpt.py --x " + "${A:-" * 1_500 + "}" * 1_500 + "\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def a_variable_that_falls_back_on_itself():
    count = SIZE // 8
    return "A=" + "${A:-" * count + "x" + "}" * count + "\ntorchrun pretrain_gpt.py --num-layers $A\n"


@blow_up("a.sh", "import", "megatron", "FILE", *GPUS)
def open_brackets_of_a_shell():
    return "python pretrain_gpt.py --x " + "$(" * 2_000 + "\n" + "(" * 4_000 + "\n"


# Models.


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def calls_of_one_op():
    return call_tree(f"    %0 = stablehlo.add %arg0, %arg0 : {T}\n", 30)


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def calls_of_nothing():
    return call_tree(f"    %0 = stablehlo.optimization_barrier %arg0 : {T}\n", 30)


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def functions_that_call_each_other():
    calls = "".join(f"    %{j} = call @{{0}}(%{a}) : ({T}) -> {T}\n" for j, a in enumerate(("arg0", "0")))
    pair = "".join(
        f"  func.func private @{name}(%arg0: {T}) -> {T} {{\n{calls.format(other)}    return %1 : {T}\n  }}\n"
        for name, other in ("ab", "ba")
    )
    return mlir(f"    %0 = call @a(%arg0) : ({T}) -> {T}\n", pair, "%0")


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def locations_that_refer():
    located = "".join(f"#loc{i} = loc(fused[#loc{i + 1}, #loc{i + 1}])\n" for i in range(150))
    body = f"    %0 = stablehlo.add %arg0, %arg0 : {T} loc(#loc0)\n"
    return located + '#loc150 = loc("x")\n' + mlir(body, "", "%0")


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def nested_constants():
    return mlir("    %c = stablehlo.constant dense<" + "[" * 4_000 + "1" + "]" * 4_000 + "> : tensor<4x4xf32>\n")


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def a_mesh_of_many_axes_of_a_model():
    axes = ", ".join(f'"a{i}"={"9" * 18}' for i in range(300))
    return mlir("", "").replace("module {", f"module {{\n  sdy.mesh @mesh = <[{axes}]>")


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def loops_in_loops():
    bound = "    %c{0} = stablehlo.constant dense<{1}> : tensor<i32>\n"
    text = ""
    for i in range(3):
        text += bound.format(f"n{i}", 1000) + bound.format(f"z{i}", 0) + bound.format(f"o{i}", 1)
    nested, closing = "", ""
    for i in range(3):
        given = f"%a{i - 1}" if i else "%arg0"
        nested += (
            f"    %w{i}:2 = stablehlo.while(%i{i} = %cz{i}, %a{i} = {given}) : tensor<i32>, {T}\n"
            "     cond {\n"
            f"      %t{i} = stablehlo.compare LT, %i{i}, %cn{i} : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            f"      stablehlo.return %t{i} : tensor<i1>\n    }} do {{\n"
        )
        inner = f"%w{i + 1}#1" if i < 2 else f"%b{i}"
        last = "" if i < 2 else f"      %b{i} = stablehlo.add %a{i}, %a{i} : {T}\n"
        closing = (
            f"{last}      %s{i} = stablehlo.add %i{i}, %co{i} : tensor<i32>\n"
            f"      stablehlo.return %s{i}, {inner} : tensor<i32>, {T}\n    }}\n" + closing
        )
    return mlir(text + nested + closing, "", "%w0#1")


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def an_open_string():
    return mlir('    "' + '\\"' * 4_500)


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def open_types():
    return mlir("    %0 = stablehlo.add %arg0, %arg0 : " + "tensor<" * 1_000 + "\n")


@blow_up("a.mlir", "import", "stablehlo", "FILE", "-o", "OUT")
def nested_regions():
    return mlir("    " + '"a.b"() ({ ' * 800)


@blow_up("a.onnx", "import", "onnx", "FILE", "-o", "OUT")
def loops_of_onnx():
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    def constant(name, value):
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value), name))

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    inside = [helper.make_node("Add", ["v0", "v0"], ["r0"])]
    for level in range(4):
        node_inputs = [
            helper.make_tensor_value_info(f"i{level}", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"c{level}", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"v{level}", TensorProto.FLOAT, [4]),
        ]
        going = helper.make_node("Identity", [f"c{level}"], [f"g{level}"])
        outputs = [
            helper.make_tensor_value_info(f"g{level}", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"r{level}", TensorProto.FLOAT, [4]),
        ]
        body = helper.make_graph([*inside, going], f"b{level}", node_inputs, outputs)
        outer = f"v{level + 1}" if level < 3 else "x"
        given = f"r{level + 1}" if level < 3 else "y"
        inside = [
            constant(f"n{level}", 1000),
            constant(f"t{level}", True),
            helper.make_node("Loop", [f"n{level}", f"t{level}", outer], [given], body=body),
        ]
    graph = helper.make_graph(inside, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


@blow_up("a.onnx", "import", "onnx", "FILE", "-o", "OUT")
def functions_of_onnx():
    from onnx import TensorProto, helper

    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = []
    for i in range(60):
        below = [f"f{i + 1}", "own"] if i < 59 else ["Abs", ""]
        nodes = [helper.make_node(below[0], [a], [b], domain=below[1]) for a, b in ("xa", "ay")]
        functions.append(helper.make_function("own", f"f{i}", ["x"], ["y"], nodes, opsets))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="own")], "g", values[:1], values[1:])
    model = helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=9)
    return model.SerializeToString()


@blow_up("config.json", "import", "hf", "FOLDER", "-o", "OUT")
def a_model_of_many_layers():
    return json.dumps({"model_type": "llama", "num_hidden_layers": 10**9, "architectures": ["LlamaForCausalLM"]})


# Tables and traces.


@blow_up("a.csv", "validate", "FILE")
def rows_of_nothing():
    return "id,hidden,gpus\n" + "a,1,\n" * 1_500


@blow_up("a.csv", "validate", "FILE")
def many_columns():
    return "id," + repeated("c#,") + "z\n" + "1," * 300 + "\n"


@blow_up("a.csv", "validate", "FILE")
def open_quotes_of_a_table():
    return "id,hidden\n" + '"a\n' * 2_500


@blow_up("a.csv", "export", "torchtitan", "FILE")
def a_search_of_many_columns():
    return repeated("c#,") + "z\n"


@blow_up("a.json", "import", "trace", "FILE")
def nested_events():
    return '{"traceEvents": [' + '{"args": ' * 900


@blow_up("a.json", "import", "trace", "FILE")
def many_ranks():
    event = '{"ph": "X", "cat": "kernel", "name": "k#", "ts": #, "dur": 1e300, "pid": #, "tid": #, "args": {}},'
    return '{"traceEvents": [' + repeated(event, 8_000) + '{"ph": "M"}]}'


@blow_up("a.json", "import", "trace", "FILE")
def times_that_are_none():
    times = [(0, 1e308), (1e308, 1e308), (5, -3), (float("inf"), 1), (float("nan"), float("nan")), (10**400, 1)]
    step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{'9' * 900}", "pid": 0, "tid": 0}
    return json.dumps({"traceEvents": [{**step, "ts": ts, "dur": dur} for ts, dur in times]})


@blow_up("a.csv", "transform", "pp=2", "microbatches=2", "schedule=FILE", "MODEL")
def a_schedule_of_large_numbers():
    return repeated("0F999999,")
