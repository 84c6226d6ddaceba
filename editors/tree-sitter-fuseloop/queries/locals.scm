; Names are declared in functions, loops, reducers and `let`s with indices.

[
  (function)
  (block)
  (loop)
  (reduction)
  (let indices: (indices))
  (equation)
] @local.scope

(function name: (identifier) @local.definition.function)
(parameter name: (identifier) @local.definition.parameter)
(parameter type: (type shape: (shape (expression/identifier) @local.definition.var)))
; Sizes that the length of an axis is solved for: `f32[2 * n + 1]`
(parameter type: (type shape: (shape (binary (identifier) @local.definition.var))))
(parameter type: (type shape: (shape (binary left: (binary (identifier) @local.definition.var)))))
(result name: (identifier) @local.definition.var)
(let pattern: (identifier) @local.definition.var)
(let pattern: (names (identifier) @local.definition.var))
(equation name: (identifier) @local.definition.var)
(state name: (identifier) @local.definition.var)

; Indices: `i`, `i < n`, `a <= i < b`
(let indices: (indices (expression/identifier) @local.definition.var))
(let indices: (indices (binary left: (identifier) @local.definition.var operator: ["<" "<="])))
(let indices: (indices (binary left: (binary operator: ["<" "<="] right: (identifier) @local.definition.var))))
(equation indices: (indices (expression/identifier) @local.definition.var))
(equation indices: (indices (binary left: (identifier) @local.definition.var operator: ["<" "<="])))
(reduction indices: (indices (expression/identifier) @local.definition.var))
(reduction indices: (indices (binary left: (identifier) @local.definition.var operator: ["<" "<="])))
(reduction indices: (indices (binary left: (binary operator: ["<" "<="] right: (identifier) @local.definition.var))))
(loop (binary left: (identifier) @local.definition.var operator: ["<" "<="]))
(loop (binary left: (binary operator: ["<" "<="] right: (identifier) @local.definition.var)))

(expression/identifier) @local.reference
(access array: (identifier) @local.reference)
(call function: (identifier) @local.reference)
(reduction function: (identifier) @local.reference)
