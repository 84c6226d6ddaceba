/**
 * The syntax of Fuseloop, after `grammar/src/grammar.lalrpop`. It accepts every program that the
 * compiler's parser accepts, and some that it does not: editors colour text that is being written.
 *
 * Where a statement ends is decided in `src/scanner.c`, by the rules of `grammar/src/layout.rs`.
 */

/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

/** How tightly operators bind, loosest first. */
const BINDING = { if: 1, or: 2, and: 3, not: 4, comparison: 5, sum: 6, product: 7, sign: 8, power: 9 };

const TYPES = [
  "bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "float",
];

/** One or more, with commas between them, and perhaps one after the last. */
const comma1 = (rule) => seq(rule, repeat(seq(",", rule)), optional(","));
const round = (rule) => seq("(", rule, ")");
const square = (rule) => seq("[", rule, "]");

module.exports = grammar({
  name: "fuseloop",

  externals: ($) => [$._newline],

  extras: ($) => [/[\s\u{a0}\u{feff}]/u, $.comment],

  word: ($) => $.identifier,

  reserved: {
    global: (_) => ["fn", "let", "rec", "if", "then", "else", "where", "loop", "while", "use", ...TYPES],
  },

  supertypes: ($) => [$.expression, $.statement],

  inline: ($) => [$._name],

  rules: {
    source_file: ($) => repeat(choice($.use, $.function, $._end)),

    _ends: ($) => repeat1($._end),
    _end: ($) => choice($._newline, ";"),

    use: ($) =>
      seq(
        "use",
        field("source", choice($.path, alias($.identifier, $.library))),
        optional(seq("(", comma1(field("name", $.identifier)), ")")),
      ),
    path: (_) => token(seq('"', /[^"\n]*/, '"')),

    function: ($) =>
      seq(
        repeat(seq($.decorator, repeat($._end))),
        "fn",
        field("name", $.identifier),
        field("parameters", $.parameters),
        optional(seq("->", field("results", choice($.type, $.results)))),
        optional(seq("where", field("condition", $.expression))),
        field("body", choice(seq("=", $.expression), $.block)),
      ),
    decorator: ($) => prec.right(seq("@", field("name", $.identifier), optional(round(optional(comma1($.expression)))))),
    parameters: ($) => round(optional(comma1($.parameter))),
    parameter: ($) => seq(field("name", $.identifier), ":", field("type", $.type)),
    results: ($) => round(comma1(choice($.type, $.result))),
    result: ($) => seq(field("name", $.identifier), ":", field("type", $.type)),

    type: ($) => seq(choice($.primitive_type, $.identifier), optional(field("shape", $.shape))),
    shape: ($) => square(comma1($.expression)),
    primitive_type: (_) => choice(...TYPES),

    block: ($) =>
      seq(
        "{",
        optional($._ends),
        optional(seq($.statement, repeat(seq($._ends, $.statement)), optional($._ends))),
        "}",
      ),

    statement: ($) => choice($.let, $.recurrence, $.expression),
    let: ($) =>
      seq("let", field("pattern", choice($._name, $.names)), optional(field("indices", $.indices)), "=", field("value", $.expression)),
    names: ($) => round(comma1($._name)),
    recurrence: ($) => seq("let", "rec", $.equation, repeat(seq(",", $.equation))),
    equation: ($) => seq(field("name", $.identifier), field("indices", $.indices), "=", field("value", $.expression)),
    _name: ($) => choice($.identifier, $.hole),

    // The indices of a `let` or of a reducer, or the subscripts of an access.
    indices: ($) => square(seq(comma1(choice($.expression, $.slice)), optional($.filter))),
    filter: ($) => seq("where", field("condition", $.expression), optional(",")),
    slice: ($) =>
      prec.right(seq(
        optional(field("start", $.expression)),
        ":",
        optional(field("stop", $.expression)),
        optional(seq(":", optional(field("step", $.expression)))),
      )),

    expression: ($) => choice($.identifier, $._applied, $.unary, $.binary, $.if),
    // Any operand but a bare name: the brackets after a name may turn out to hold the indices of a
    // reducer.
    _applied: ($) =>
      choice(
        $.number, $.hole, $.parenthesized, $.tuple, $.array, $.cast, $.call, $.reduction, $.access, $.loop,
      ),

    parenthesized: ($) => round(seq($.expression, optional(","))),
    tuple: ($) => round(seq($.expression, ",", comma1($.expression))),
    array: ($) => square(optional(comma1($.expression))),
    cast: ($) => seq(field("type", $.primitive_type), round(seq($.expression, optional(",")))),
    call: ($) => seq(field("function", $.identifier), field("arguments", $.arguments)),
    reduction: ($) => seq(field("function", $.identifier), field("indices", $.indices), field("arguments", $.arguments)),
    arguments: ($) => round(optional(comma1(choice($.expression, $.named_argument, $.primitive_type)))),
    named_argument: ($) => seq(field("name", $.identifier), "=", field("value", $.expression)),
    access: ($) => seq(field("array", choice($.identifier, $._applied)), field("indices", $.indices)),

    unary: ($) =>
      choice(
        prec(BINDING.not, seq(field("operator", "!"), field("operand", $.expression))),
        prec(BINDING.sign, seq(field("operator", "-"), field("operand", $.expression))),
      ),
    binary: ($) => {
      const operation = (operator) => seq(field("left", $.expression), field("operator", operator), field("right", $.expression));
      return choice(
        prec.left(BINDING.or, operation("||")),
        prec.left(BINDING.and, operation("&&")),
        prec.left(BINDING.comparison, operation(choice("==", "!=", "<", "<=", ">", ">="))),
        prec.left(BINDING.sum, operation(choice("+", "-"))),
        prec.left(BINDING.product, operation(choice("*", "/", "%", "@"))),
        prec.right(BINDING.power, operation("^")),
      );
    },

    if: ($) =>
      prec.right(
        BINDING.if,
        seq(
          "if", field("condition", $.expression),
          "then", field("consequence", $.expression),
          "else", field("alternative", $.expression),
        ),
      ),

    loop: ($) =>
      seq(
        "loop",
        choice($.state, $.expression),
        repeat(seq(",", choice($.state, $.expression))),
        optional(seq("while", field("condition", $.expression))),
        field("body", $.block),
      ),
    state: ($) => seq(field("name", $.identifier), "=", field("value", $.expression)),

    number: (_) =>
      token(choice(
        /0x[0-9a-fA-F_]+/,
        /0b[01_]+/,
        /([0-9][0-9_]*(\.([0-9][0-9_]*)?)?|\.[0-9][0-9_]*)([eE][+-]?[0-9][0-9_]*)?/,
      )),
    hole: (_) => "_",
    identifier: (_) => /[A-Za-z_][A-Za-z0-9_]*/,
    comment: (_) => token(/#[^\n]*/),
  },
});
