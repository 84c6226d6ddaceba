; Patterns exclude one another, so that their order does not matter: editors differ in it.

(comment) @comment
(number) @number
(path) @string
(library) @module

[ "fn" "let" "rec" "where" "use" ] @keyword
[ "if" "then" "else" ] @keyword.conditional
[ "loop" "while" ] @keyword.repeat

(primitive_type) @type.builtin
(type (identifier) @type)

(decorator "@" @attribute name: (identifier) @attribute)

; Functions

(function name: (identifier) @function)
(use name: (identifier) @function)

; Those of the language, as in `src/reference.rs`
([
  (call function: (identifier) @function.builtin)
  (reduction function: (identifier) @function.builtin)
 ]
 (#any-of? @function.builtin
    "abs" "sign" "min" "max" "clamp" "relu" "pow" "mod" "floor_div" "fma" "sqrt" "rsqrt" "cbrt"
    "floor" "ceil" "trunc" "round" "exp" "exp2" "expm1" "log" "log2" "log10" "log1p" "sin" "cos"
    "tan" "asin" "acos" "atan" "atan2" "sinh" "cosh" "tanh" "asinh" "acosh" "atanh" "sigmoid"
    "silu" "softplus" "erf" "erf_inv" "lgamma" "digamma" "gelu" "gelu_tanh" "isnan" "isinf"
    "isfinite" "select" "bit_and" "bit_or" "bit_xor" "bit_not" "shift_left" "shift_right"
    "popcount" "bitcast" "uniform" "normal" "iota" "size" "transpose" "reshape" "concat" "var"
    "std" "norm" "diff" "sort" "argsort" "top" "median" "quantile" "searchsorted" "sum" "prod"
    "mean" "any" "all" "argmax" "argmin"))

([
  (call function: (identifier) @function.call)
  (reduction function: (identifier) @function.call)
 ]
 (#not-any-of? @function.call
    "abs" "sign" "min" "max" "clamp" "relu" "pow" "mod" "floor_div" "fma" "sqrt" "rsqrt" "cbrt"
    "floor" "ceil" "trunc" "round" "exp" "exp2" "expm1" "log" "log2" "log10" "log1p" "sin" "cos"
    "tan" "asin" "acos" "atan" "atan2" "sinh" "cosh" "tanh" "asinh" "acosh" "atanh" "sigmoid"
    "silu" "softplus" "erf" "erf_inv" "lgamma" "digamma" "gelu" "gelu_tanh" "isnan" "isinf"
    "isfinite" "select" "bit_and" "bit_or" "bit_xor" "bit_not" "shift_left" "shift_right"
    "popcount" "bitcast" "uniform" "normal" "iota" "size" "transpose" "reshape" "concat" "var"
    "std" "norm" "diff" "sort" "argsort" "top" "median" "quantile" "searchsorted" "sum" "prod"
    "mean" "any" "all" "argmax" "argmin"))

; Names

(parameter name: (identifier) @variable.parameter)
(named_argument name: (identifier) @variable.parameter)
(result name: (identifier) @variable)
(let pattern: (identifier) @variable)
(names (identifier) @variable)
(equation name: (identifier) @variable)
(state name: (identifier) @variable)
(access array: (identifier) @variable)
(hole) @variable

((expression/identifier) @variable
 (#not-any-of? @variable "pi" "inf" "nan" "true" "false"))
((expression/identifier) @constant.builtin
 (#any-of? @constant.builtin "pi" "inf" "nan" "true" "false"))

; Marks

(unary operator: _ @operator)
(binary operator: _ @operator)
[ "=" "->" ] @operator
[ "," ":" ";" ] @punctuation.delimiter
[ "(" ")" "[" "]" "{" "}" ] @punctuation.bracket
