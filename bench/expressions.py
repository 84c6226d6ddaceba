"""The workloads that numexpr can say: an expression for each result. It has no matrix products, and reductions alone at the top."""


def sigmoid(x):
    return f"(one / (one + exp(-({x}))))"


def relu(x):
    return f"((abs({x}) + ({x})) * half)"  # maximum() would widen to f64, and where() is slower


#: Literals widen to f64, so constants are f32 values.
CONSTANTS = {"one": 1, "two": 2, "half": 0.5, "small": 1e-3, "fifth": 0.2, "gelu": 0.7978845608028654, "cubic": 0.044715}
CONSTANTS |= {"lat0": 0.70984286, "lon0": 1.2389197, "cos_lat0": 0.7584642957857578, "diameter": 7918, "four": 4}

EXPRESSIONS = {
    "tiny": [sigmoid(f"{relu('(x + one) * two')} - half")],
    "relu_bias": [relu("x * two + y")],
    "relu_bias_row": [relu("x * two + b")],
    "chain5": [sigmoid(f"{relu('(x + one) * two')} - half")],
    "chain_xy": [sigmoid(f"{relu('(x + y) * two')} - one")],
    "chain_sq": [f"{relu('(x + one) * two')} ** 2"],
    "sig_tanh": [f"{sigmoid('x')} * tanh(x + one)"],
    "log_relu": [f"log({relu('x + y')} + small)"],
    "gelu_tanh": ["half * x * (one + tanh(gelu * (x + cubic * x * x * x)))"],
    "swiglu": [f"x * {sigmoid('x')} * y"],
    "relu_plus_sig": [f"{relu('x')} + {sigmoid('y')}"],
    "pw_xwb": [f"{relu('x * w + b')} * half"],
    "sincos": ["sin(x)", "cos(x)"],
    "dot": ["sum(x * y)"],
    "multi_reduce": ["sum(x)", "sum(x * x)", "min(x)", "max(x)"],
    "colsum_xy": ["sum(x * y, axis=0)"],
    "colsum": ["sum(x, axis=0)"],
    "colsum_f64": ["sum(x, axis=0)"],
    "sums": ["sum(x, axis=1)", "sum(x, axis=0)"],
    "haversine": [
        "diameter * arcsin(sqrt(sin((lat - lat0) * half) ** 2 + cos_lat0 * cos(lat) * sin((lon - lon0) * half) ** 2))"
    ],
}
