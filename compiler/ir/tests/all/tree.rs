//! The tree of kernels: its text, its rules, and how long buffers live in loops over kernels.

use ir::live::Lives;
use ir::nest::{KernelId, Node, Program, Repeat, kernels_in, replace_kernels};
use ir::verify::verify;

const HEADER: &str = "
  symbol n = dim 0 of input 0
  symbol t = value of input 1
  input %x0: f32[n]
  input %t: i64
  output %y: f32[n]
  temp %x: f32[n]
  temp %x1: f32[n]
  temp %u: f32[n]
  temp %u1: f32[n]
  temp %w: f32[n]
  temp %h: f16[n]
  temp %c: bool
  scratch %s: f32[n]
";

fn parse(tree: &str) -> Program {
    format!("program @p {{ {HEADER} {tree} }}").parse().unwrap_or_else(|e| panic!("{e}\n{tree}"))
}

/// A kernel that adds one array to another.
fn add(name: &str, from: [&str; 2], to: &str) -> String {
    let [a, b] = from;
    format!(
        "kernel @{name} {{ parallel i < n {{ v0 = load %{a}[i] v1 = load %{b}[i] v2 = add v0, v1 store %{to}[i], v2 }} }}"
    )
}

fn message(tree: &str) -> String {
    verify(&parse(tree)).err().map_or_else(|| "right".to_string(), |error| error.to_string())
}

/// A loop in a loop: the inner one begins with what the outer one carries.
fn nested() -> String {
    let inner = format!("repeat 2 * n with %u = %x then %u1 {{ {} }}", add("inner", ["u", "w"], "u1"));
    let outer = format!("{} {inner} {}", add("before", ["x0", "x"], "w"), add("after", ["u", "x"], "x1"));
    format!("repeat t with %x = %x0 then %x1 {{ {outer} }} {}", add("end", ["x", "x0"], "y"))
}

#[test]
fn the_text_shows_the_tree() {
    let program = parse(&nested());
    verify(&program).unwrap();
    let text = program.to_string();
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("repeat") || line.contains("kernel @")).collect();
    let expected = "  repeat t with %x = %x0 then %x1 {
    kernel @before {
    repeat 2 * n with %u = %x then %u1 {
      kernel @inner {
    kernel @after {
  kernel @end {";
    assert_eq!(heads.join("\n"), expected);
    assert_eq!(text.parse::<Program>().unwrap(), program);
    assert_eq!(program.repeats().iter().map(|r| kernels_in(&r.body).len()).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn kernels_are_replaced_where_they_are() {
    let program = parse(&nested());
    let mut next = 0;
    let doubled = replace_kernels(&program.body, &mut |_| {
        next += 2;
        vec![KernelId::from_u32(next - 2), KernelId::from_u32(next - 1)]
    });
    let [Node::Repeat(Repeat { body, .. }), Node::Kernel(_), Node::Kernel(_)] = doubled.as_slice() else {
        panic!("{doubled:?}")
    };
    assert!(matches!(
        body.as_slice(),
        [Node::Kernel(_), Node::Kernel(_), Node::Repeat(_), Node::Kernel(_), Node::Kernel(_)]
    ));
    assert!(kernels_in(&doubled).into_iter().eq((0..8).map(KernelId::from_u32)));
}

#[test]
fn loops_carry_what_has_contents() {
    let step = |from: [&str; 2], to: &str| add("step", from, to);
    let repeat = |carried: &str, body: &str| format!("repeat t with {carried} {{ {body} }}");
    let x = "%x = %x0 then %x1";
    let right = step(["x", "x0"], "x1");
    let cases = [
        (repeat(x, &right), "right"),
        (repeat(x, ""), "a loop over kernels: its body does not store %x1"),
        (format!("repeat t {{ {right} }}"), "a loop over kernels: carries nothing"),
        (repeat(x, &step(["x", "x0"], "w")), "a loop over kernels: its body does not store %x1"),
        (repeat(x, &step(["x", "x1"], "x1")), "right"),
        (repeat(x, &(step(["x", "x0"], "x1") + &add("b", ["x", "x1"], "w"))), "right"),
        (repeat(x, &(add("b", ["x", "x1"], "w") + &right)), "kernel @b: %x1 has no contents here"),
        (repeat(x, &step(["x", "x0"], "x")), "kernel @step: %x gets its contents elsewhere"),
        (repeat(x, &step(["x", "x0"], "y")), "kernel @step: a loop over kernels stores the result %y"),
        (repeat("%x = %w then %x1", &right) + &add("b", ["x0", "x0"], "w"), "carried %x: %w has no contents here"),
        (repeat("%x = %x then %x1", &right), "carried %x: %x has no contents here"),
        (repeat("%x = %x1 then %x1", &right), "carried %x: %x1 has no contents here"),
        (repeat("%x = %x0 then %x", &right), "carried %x: %x gets its contents elsewhere"),
        (
            repeat("%h = %x0 then %x1", &right),
            "carried %h: is not of one type and shape with what it begins with and what is stored",
        ),
        (repeat("%x = %s then %x1", &right), "carried %x: begins as scratch, or is no temporary"),
        (repeat("%x0 = %x then %x1", &right), "carried %x0: begins as scratch, or is no temporary"),
        (repeat("%x = %x0 then %x1, %x = %x0 then %u1", &right), "carried %x: %x gets its contents elsewhere"),
        (repeat("%x = %x0 then %x1, %u = %x0 then %x1", &right), "carried %u: %x1 gets its contents elsewhere"),
        (add("a", ["x0", "x0"], "x1") + &repeat(x, &right), "carried %x: %x1 gets its contents elsewhere"),
        (repeat(x, &right) + &add("b", ["x", "x0"], "y"), "right"),
        (repeat(x, &right) + &add("b", ["x1", "x0"], "y"), "kernel @b: %x1 has no contents here"),
        (repeat(x, &right) + &add("b", ["x0", "x0"], "x1"), "kernel @b: %x1 gets its contents elsewhere"),
        (add("b", ["x", "x0"], "y") + &repeat(x, &right), "kernel @b: %x has no contents here"),
        (
            repeat(x, &(add("a", ["x", "x"], "w") + &right)) + &add("b", ["w", "x0"], "y"),
            "kernel @b: %w has no contents here",
        ),
        (repeat(x, &repeat("%u = %x then %x1", &right)), "carried %u: %x1 gets its contents elsewhere"),
        (repeat(x, &(repeat("%u = %x then %u1", &add("a", ["u", "x"], "u1")) + &right)), "right"),
        (
            repeat(x, &(repeat("%u = %x then %u1", &right) + &right.replace("step", "b"))),
            "kernel @step: %x1 gets its contents elsewhere",
        ),
        (
            repeat(x, &(repeat("%u = %x then %u1", &add("a", ["u", "x"], "u1")) + &right)) + &add("b", ["u", "x"], "y"),
            "kernel @b: %u has no contents here",
        ),
    ];
    for (tree, expected) in cases {
        assert_eq!(message(&tree), expected, "{tree}");
    }
}

#[test]
fn the_tree_has_each_kernel_once() {
    let broken = "the tree of kernels: does not have each kernel once, in the order of their numbers";
    let mut program = parse(&nested());
    program.body.pop();
    assert_eq!(verify(&program).unwrap_err().to_string(), broken);
    program.body.push(Node::Kernel(KernelId::from_u32(2)));
    assert_eq!(verify(&program).unwrap_err().to_string(), broken);
}

/// Buffers that loops need to their ends share no memory with those that their bodies store.
#[test]
fn lives_reach_over_loops() {
    let program = parse(&nested());
    let lives = Lives::of(&program);
    let span = |name: &str| {
        let id = program.buffers.iter().find(|(_, b)| b.name == name).map(|(id, _)| id).unwrap();
        lives.live_range(id).map(|range| (range.first.as_u32(), range.last.as_u32()))
    };
    assert_eq!(span("x"), Some((0, 3)));
    assert_eq!(span("x1"), Some((0, 3)));
    assert_eq!((span("u"), span("u1")), (Some((1, 2)), Some((1, 2))));
    assert_eq!(span("w"), Some((0, 1)));
    // The initial buffer lives as long as the carried one, in case there is no iteration.
    let tree = format!(
        "{} repeat t with %x = %w then %x1 {{ {} }} {} {}",
        add("a", ["x0", "x0"], "w"),
        add("b", ["x", "x0"], "x1"),
        add("c", ["x0", "x0"], "u"),
        add("d", ["x", "u"], "y"),
    );
    let program = parse(&tree);
    verify(&program).unwrap();
    let lives = Lives::of(&program);
    for (id, buffer) in &program.buffers {
        if ["w", "x", "x1"].contains(&buffer.name.as_str()) {
            assert_eq!(lives.live_range(id).map(|s| s.last.as_u32()), Some(3), "{}", buffer.name);
        }
    }
    for slots in ["%w, %x", "%w, %y", "%x1, %u"] {
        assert!(!may_share(slots, &tree), "{slots}");
    }
}

/// Whether buffers may share a slot.
fn may_share(slot: &str, tree: &str) -> bool {
    verify(&parse(tree)).unwrap();
    let program: Program = format!("program @p {{ {HEADER} slot0 = {slot} {tree} }}").parse().unwrap();
    verify(&program).is_ok()
}

/// The two buffers that a loop carries share memory where the last kernel that reads the old
/// contents replaces them element by element.
#[test]
fn carried_contents_are_replaced_in_place() {
    let step = add("step", ["x", "x0"], "x1");
    let repeat = |body: &str| format!("repeat t with %x = %x0 then %x1 {{ {body} }} {}", add("end", ["x", "x0"], "y"));
    let use_of = |buffer| add("use", [buffer, "x0"], "w");
    assert!(may_share("%x, %x1", &repeat(&step)));
    assert!(may_share("%x, %x1", &repeat(&format!("{} {step}", use_of("x")))));
    assert!(may_share("%x, %x1", &repeat(&format!("{step} {}", use_of("x1")))));
    // The old contents are read later,
    assert!(!may_share("%x, %x1", &repeat(&format!("{step} {}", use_of("x")))));
    // elsewhere,
    assert!(!may_share("%x, %x1", &repeat(&step.replace("%x[i]", "%x[n - 1 - i]"))));
    let again = "v0 = load %x[i] v3 = load %x[0]";
    assert!(!may_share("%x, %x1", &repeat(&step.replace("v0 = load %x[i]", again))));
    // by a loop that begins with them,
    let inner = format!("repeat t with %u = %x then %u1 {{ {} }}", add("inner", ["u", "x0"], "u1"));
    assert!(!may_share("%x, %x1", &repeat(&format!("{inner} {}", add("step", ["x", "u"], "x1")))));
    // or behind the loop, which ends with them.
    let exit = "kernel @test { v0 = load %x0[0] v1 = lt v0, v0 store %c[], v1 } exit unless %c";
    assert!(may_share("%x, %x1", &repeat(&format!("{exit} {step}"))));
    assert!(!may_share("%x, %x1", &repeat(&format!("{step} {exit}"))));
}

/// A carried buffer lives to the end of a later loop that reads it, even if nothing else does.
#[test]
fn a_result_lives_as_long_as_a_later_loop() {
    let tree = format!(
        "repeat t with %x = %x0 then %x1 {{ {} }} repeat t with %u = %x0 then %u1 {{ {} {} }} {}",
        add("a", ["x0", "x0"], "x1"),
        add("b", ["x", "u"], "w"),
        add("c", ["w", "u"], "u1"),
        add("d", ["u", "u"], "y"),
    );
    let program = parse(&tree);
    verify(&program).unwrap();
    let lives = Lives::of(&program);
    for (id, buffer) in program.buffers.iter().filter(|(_, b)| ["x", "x1"].contains(&b.name.as_str())) {
        let range = lives.live_range(id).map(|range| (range.first.as_u32(), range.last.as_u32()));
        assert_eq!(range, Some((0, 2)), "{}", buffer.name);
    }
}

#[test]
fn exits_end_the_loop_around_them() {
    let flag = "kernel @flag { v0 = const bool true store %c[], v0 }";
    let (step, end) = (add("step", ["x", "x0"], "x1"), add("end", ["x", "x0"], "y"));
    let repeat = |trips: &str, body: &str| format!("repeat {trips} with %x = %x0 then %x1 {{ {body} }} {end}");
    let exit = |of: &str| format!("exit unless %{of}");
    let cases = [
        (repeat("forever", &format!("{flag} {} {step}", exit("c"))), "right"),
        (repeat("t", &format!("{flag} {step} {}", exit("c"))), "right"),
        (format!("{flag} {}", repeat("t", &format!("{} {step}", exit("c")))), "right"),
        (repeat("forever", &step), "a loop over kernels: never ends"),
        (
            repeat(
                "forever",
                &format!(
                    "repeat t with %u = %x then %u1 {{ {flag} {} {} }} {step}",
                    exit("c"),
                    add("i", ["u", "x"], "u1")
                ),
            ),
            "a loop over kernels: never ends",
        ),
        (repeat("t", &format!("{} {flag} {step}", exit("c"))), "exit unless %c: has no contents here"),
        (repeat("t", &format!("{} {step}", exit("x"))), "exit unless %x: is no `bool` without axes"),
        (format!("{flag} {} {end}", exit("c")), "exit unless %c: stands in no loop over kernels"),
    ];
    for (tree, expected) in cases {
        assert_eq!(message(&tree), expected, "{tree}");
        let program = parse(&tree);
        assert_eq!(program.to_string().parse::<Program>().unwrap(), program);
    }
    // A condition lives until the exit looks at it.
    let program = parse(&repeat("forever", &format!("{flag} {step} {}", exit("c"))));
    let lives = Lives::of(&program);
    let flag = program.buffers.iter().find(|(_, b)| b.name == "c").map(|(id, _)| id).unwrap();
    assert_eq!(lives.live_range(flag).map(|range| (range.first.as_u32(), range.last.as_u32())), Some((0, 1)));
}
