//! The style, by example, and its limits. The properties in `tests/` show that formatting never
//! changes the meaning of a program.

use std::time::Instant;

use grammar::{MAX_DEPTH, format};

/// Asserts that `source` is formatted as `formatted`, and that formatting this changes nothing.
#[track_caller]
fn becomes(source: &str, formatted: &str) {
    assert_eq!(format(source).unwrap(), formatted);
    assert_eq!(format(formatted).unwrap(), formatted, "not stable");
}

#[track_caller]
fn stays(source: &str) {
    becomes(source, source);
}

#[test]
fn spaces() {
    becomes(
        "fn f( x:f32 [n,m+1] ,k : i64,)->(a:f32[n],f32)=( x[:, 1 : n : 2]*-k^- 2 , ! (k==1) )",
        "fn f(x: f32[n, m + 1], k: i64) -> (a: f32[n], f32) = (x[:, 1:n:2] * -k ^ -2, !(k == 1))\n",
    );
    becomes("fn f(x: f32[n]) = sum [ k<n ,l ] ( x [k] , )", "fn f(x: f32[n]) = sum[k < n, l](x[k])\n");
    becomes(
        "fn f(x: f32[n])=mean( x,axis=0 )@[1_0,.5,2.,1E-5]",
        "fn f(x: f32[n]) = mean(x, axis = 0) @ [1_0, .5, 2., 1E-5]\n",
    );
    becomes("fn f(x:f32[n])\n  where n>1&&\n n<9\n= x", "fn f(x: f32[n]) where n > 1 && n < 9 = x\n");
    becomes("fn f(x:f32[n])->f32 where(n==1){x[0]}", "fn f(x: f32[n]) -> f32 where (n == 1) {\n    x[0]\n}\n");
    becomes("fn f() = (((1)))+((2,),)[0]", "fn f() = (1) + (2)[0]\n");
    becomes("fn f() = ((1,))+((2),)", "fn f() = (1) + (2)\n");
    becomes("\u{feff}fn f() =\t1\r\n", "fn f() = 1\n");
}

#[test]
fn uses_have_a_line_each() {
    becomes(
        "# Top\nuse   \"a.fl\"(f,g ,); use nn # why\nfn f() = 1\n",
        "# Top\nuse \"a.fl\" (f, g)\nuse nn  # why\nfn f() = 1\n",
    );
    becomes("use nn\nfn f() { let a = 1; a }\nuse stats", "use nn\n\nfn f() {\n    let a = 1\n    a\n}\n\nuse stats\n");
    becomes("use\n\"a.fl\"\nfn f() = 1", "use \"a.fl\"\nfn f() = 1\n");
    stays("use nn ( # some\n    f,\n    g,\n)\n".replace("( # some", "(  # some").as_str());
}

#[test]
fn statements_have_a_line_each() {
    becomes(
        "fn f(x: f32[n]) { let (a,b)=g(x); ; let y [i,j<n]=a\n\n\n\n y+b }",
        "fn f(x: f32[n]) {\n    let (a, b) = g(x)\n    let y[i, j < n] = a\n\n    y + b\n}\n",
    );
    becomes("@fast @kernels( 1, )\n\nfn f() = 1", "@fast\n@kernels(1)\nfn f() = 1\n");
    becomes("@fast\n\n# why\nfn f() = 1", "@fast\n# why\nfn f() = 1\n");
    becomes("fn f() {\n\n# one\n\n# two\n1\n}", "fn f() {\n    # one\n\n    # two\n    1\n}\n");
}

#[test]
fn arrays_of_a_recurrence_have_a_line_each() {
    becomes(
        "fn f(x: f32[n]) {\nlet  rec y [t<n]=y[t-1]\ny}",
        "fn f(x: f32[n]) {\n    let rec y[t < n] = y[t - 1]\n    y\n}\n",
    );
    let long = "a_long_name_of_an_array";
    becomes(
        &format!("fn f() {{ let rec a[t<n]=b[t-1], b[t<n]={long}[t] * {long}[t] + {long}[t] * {long}[t]*a[t]; b }}"),
        &format!(
            "fn f() {{\n    let rec a[t < n] = b[t - 1],\n            b[t < n] =\n                {long}[t] * {long}[t] +\n{0}{long}[t] * {long}[t] * a[t]\n    b\n}}\n",
            " ".repeat(16)
        ),
    );
    stays(
        "fn f() {\n    let rec a[t < n] = b[t - 1],  # first\n            b[t < n] = a[t]       # second\n    b\n}\n",
    );
}

#[test]
fn blank_lines_between_functions() {
    stays("fn f() = 1\nfn g() = 2\n\nfn h() = 3\n");
    becomes("\n\nfn f() = 1; fn g() {\n\n2\n\n} fn h() = 3\n\n\n", "fn f() = 1\n\nfn g() {\n    2\n}\n\nfn h() = 3\n");
    stays("fn f() = 1\n# of g\nfn g() = 2\n# of h\n\n# more\nfn h() = 3\n");
    becomes("fn f() {\n1\n}\n# of g\nfn g() = 2", "fn f() {\n    1\n}\n\n# of g\nfn g() = 2\n");
    becomes(
        "fn f() {\n1\n} # of f\n# of f too\n\nfn g() = 2",
        "fn f() {\n    1\n}  # of f\n# of f too\n\nfn g() = 2\n",
    );
    becomes("", "");
    becomes("\n\n# alone \n\n\n#: and more", "# alone\n\n#: and more\n");
}

#[test]
fn values_too_long_for_their_line() {
    // A list that fits on a line of its own gets one.
    stays(
        "fn classify(x: f32[n, p], w1: f32[p, h], b1: f32[h], w2: f32[h, c], b2: f32[c]) -> i64[n] =
    argmax(logits(x, w1, b1, w2, b2), axis = 1)
",
    );
    // A call that does not fit breaks in its brackets, and only in the innermost if each is the
    // only element of the one around it.
    stays(
        "fn f(x: f32[n]) {
    let first = clamp(
        the_first_of_all_the_arguments_of_this_function,
        the_second_of_all_the_arguments_of_this_function,
        axis = 1,
    )
    let second = relu(sum[z, u, v](
        weights_of_the_first_layer[n, z, i + u, j + v] *
        weights_of_the_second_layer[o, z, u, v] *
        scale
    ))
    the_first_operand_of_a_long_result(first) * the_second_factor +
        the_second_operand_of_a_long_result(second)
}
",
    );
    // The looser an operator binds, the further left it stands.
    stays(
        "fn f(x: f32[n]) =
    the_first_factor_of_the_first_summand_of_the_left_side *
            the_second_factor_of_the_first_summand_of_the_left_side +
        the_second_summand_of_the_left_side ==
    the_right_side
",
    );
    stays(
        "fn f(x: f32[n]) {
    let y[i < n] =
        if 0 < i && i < n - 1 then the_value_inside(x[i - 1], x[i], x[i + 1])
        else if i == 0 then
            the_value_at_the_beginning(x[0], x[1], x[2], x[3], x[4]) *
            the_factor_at_the_beginning(x[0], x[1], x[2], x[3], x[4])
        else the_value_at_the_end
    y
}
",
    );
}

#[test]
fn lines_may_be_full() {
    let x = |columns| "x".repeat(columns);
    stays(&format!("fn f() = {}\n", x(91)));
    becomes(&format!("fn f() = {}", x(92)), &format!("fn f() =\n    {}\n", x(92)));
    // With a trailing comma.
    stays(&format!("fn f() = g(\n    1,\n    h({}),\n)\n", x(92)));
    stays(&format!("fn f() = g(\n    1,\n    h(\n        {}\n    ),\n)\n", x(93)));
}

#[test]
fn lists_too_long_for_their_line() {
    // One line for each, even if more would fit, with a trailing comma.
    let (x, sum) = ("x".repeat(40), "sum".repeat(15));
    becomes(&format!("fn f() = g({x}, {x}, {x})"), &format!("fn f() = g(\n    {x},\n    {x},\n    {x},\n)\n"));
    becomes(
        &format!("fn f() = [g({x}), -{x}, 2 + {x}]"),
        &format!("fn f() = [\n    g({x}),\n    -{x},\n    2 + {x},\n]\n"),
    );
    // No trailing comma behind a single element, and one that is there does not make it a list.
    becomes(&format!("fn f() = g({sum} + {sum} + 1,)"), &format!("fn f() = g(\n    {sum} +\n    {sum} +\n    1\n)\n"));
    becomes(&format!("fn f() = g(h({sum}, {sum}),)"), &format!("fn f() = g(h(\n    {sum},\n    {sum},\n))\n"));
}

#[test]
fn heads_too_long_for_their_line() {
    stays(
        "fn f(
    the_first_parameter: f32[n, the_size_of_the_first_parameter],
    the_second_parameter: f32[n, the_size_of_the_second_parameter],
) -> f32[n] {
    the_first_parameter
}

fn activations(x: f32[n]) -> (
    sigmoid: f32[n],
    tanh: f32[n],
    gelu: f32[n],
    erf: f32[n],
    clipped: f32[n],
    rounded: f32[n],
) {
    x
}
",
    );
}

#[test]
fn conditions_and_results_too_long_for_their_line() {
    stays(
        "fn learnt(x: u8[n, p], label: i32[n], steps: i64, rate: f32) -> (losses: f32[steps], right: f32)
        where steps >= 0 {
    x
}

fn learnt(
    x: u8[n, p],
    label: i32[n],
    weights_of_the_first_layer: f32[p, h],
    weights_of_the_second_layer: f32[h, c],
) -> f32[n, p] where n >= 1 {
    x
}

fn learnt(x: u8[n, p], label: i32[n], weights_of_the_only_layer: f32[p, h], steps: i64)
        where the_first_of_two_conditions_on_the_arguments_of_this_function <= n &&
            the_second_of_two_conditions_on_the_arguments_of_this_function <= m = x

fn mlp(
    x: float[n, k],
    w1: float[k, h],
    b1: float[h],
    w2: float[h, m],
    b2: float[m],
) -> float[n, m] = relu(x @ w1 + b1) @ w2 + b2
",
    );
}

/// At whatever column they begin, conditions and types that have room on a line are not broken.
#[test]
fn short_conditions_and_types_stay_whole() {
    let heads = [
        ("fn f(NAME: f32[n], steps: i64)", " where 0 <= steps { x }", "0 <= steps"),
        ("fn f(NAME: f32[n], steps: i64)", " where 0 <= steps = x", "0 <= steps"),
        ("fn f(NAME: f32[n], k: i64) -> (a: f32[n])", " where 0 <= k && k < n { x }", "0 <= k && k < n"),
        ("fn f(x: f32[n], NAME: f32[n])", " -> f32[n, m + 1] = x", "f32[n, m + 1]"),
        ("fn f(x: f32[n], NAME: f32[n])", " -> f32[n, m + 1] where k < n { x }", "f32[n, m + 1]"),
        ("fn f(NAME: i64) =", " if NAME < 10 && NAME > 1 then g(a, b) else b", "NAME < 10 && NAME > 1 then"),
        ("fn f() { let y = h(NAME, if", " i <= 10 && j > 1 then g(a, b) else b); y }", "i <= 10 && j > 1 then"),
        ("fn f() { let y = loop x = NAME,", " t < n { x + 1 }; y }", "t < n"),
        ("fn f() { let y = loop x = NAME", " while x - 1 > a * b { x + 1 }; y }", "while x - 1 > a * b"),
        ("fn f() { let rec NAME[", "t < n] = if t <= 0 then a else b; y }", "t < n"),
        ("fn f() { let rec NAME[t < n]", " = if t <= 0 then a else b; y }", "if t <= 0 then"),
        ("fn f() { let rec a[t < n] = NAME,", " b[t < n, k < m] = if t <= 0 then a else b; b }", "b[t < n, k < m]"),
        ("fn f() = NAME + sum[", "k < n where k > i + 1](x[k])", "k > i + 1"),
    ];
    for (head, rest, whole) in heads {
        for length in 1..75 {
            let name = "x".repeat(length);
            let [source, whole] = [&format!("{head}{rest}"), whole].map(|text| text.replace("NAME", &name));
            if whole.len() > 70 {
                continue;
            }
            let formatted = format(&source).unwrap();
            assert!(formatted.contains(&whole), "{source}\nbecomes\n{formatted}");
            assert!(formatted.lines().all(|line| line.len() <= 100), "{formatted}");
            assert_eq!(format(&formatted).unwrap(), formatted, "not stable");
        }
    }
}

#[test]
fn tables_are_filled() {
    let numbers: Vec<String> = (100..130).map(|n| n.to_string()).collect();
    becomes(
        &format!("fn f() = [{}]", numbers.join(",")),
        &format!("fn f() = [\n    {},\n    {},\n]\n", numbers[..19].join(", "), numbers[19..].join(", ")),
    );
    // Up to the last column of the page.
    let (x, y, z) = ("x".repeat(50), "y".repeat(43), "z".repeat(20));
    becomes(&format!("fn f() = [{x}, {y}, {z}]"), &format!("fn f() = [\n    {x}, {y},\n    {z},\n]\n"));
    becomes(&format!("fn f() = [{x}, {y}y, {z}]"), &format!("fn f() = [\n    {x},\n    {y}y, {z},\n]\n"));
    becomes(&format!("fn f() = [{x}, {y}y]"), &format!("fn f() = [\n    {x},\n    {y}y,\n]\n"));
    stays("fn f() = [\n    1, 2,  # the first row\n    3, 4,  # the second\n]\n");
}

#[test]
fn comments_inside_expressions() {
    becomes(
        "fn f(x: f32[n], # the data
  # a scalar, or two
  k: f32 # once
  , ) = max(x # left
   # of both
   * k # right
   , # nothing
   0
   # at the end
   )",
        "fn f(
    x: f32[n],  # the data
    # a scalar, or two
    k: f32,  # once
) = max(
    x *  # left
        # of both
        k,  # right
    # nothing
    0,
    # at the end
)
",
    );
    // The blank lines around comments go.
    becomes("fn f() = (1 +\n\n# two\n\n2)", "fn f() = (\n    1 +\n    # two\n    2\n)\n");
    becomes("fn f(\n# none\n) = 1", "fn f(\n    # none\n) = 1\n");
    becomes("fn f() = [ # none\n # at all\n ]", "fn f() = [  # none\n    # at all\n]\n");
    becomes(
        "fn # name\n f() { # block\n # end\n 1 # one\n # two\n }",
        "fn f() {  # name\n    # block\n    # end\n    1  # one\n    # two\n}\n",
    );
    becomes(
        "fn f(c: bool) = if c then # yes\n 1 else # no\n 2",
        "fn f(c: bool) =\n    if c then  # yes\n        1\n    else  # no\n        2\n",
    );
    becomes("fn f() = ( # a\n ((1 # b\n ) # c\n ))", "fn f() = (  # a\n    1       # b\n)           # c\n");
}

#[test]
fn comments_are_aligned() {
    // In adjacent lines.
    becomes(
        "fn f() {\n  let a = 1 # one\n  let long = 2 # two\n\n  let b = 3 # three\n  b\n}",
        "fn f() {\n    let a = 1     # one\n    let long = 2  # two\n\n    let b = 3  # three\n    b\n}\n",
    );
    // In the column where the author put them, if there is room, and likewise comments that
    // continue below.
    stays(
        "fn f() {             # one\n    let a = 1\n    let bcd = 2      # two\n                     # and a half\n    a\n}\n",
    );
    becomes(
        "fn f() {\n    let a = 1  # one\n    let long=2 +  3  # two\n               # more\n    a\n}\n",
        "fn f() {\n    let a = 1         # one\n    let long = 2 + 3  # two\n    # more\n    a\n}\n",
    );
    // A column counts if it is set apart from the code and looks the same in every editor.
    becomes("fn f() =     1 # one", "fn f() = 1  # one\n");
    becomes("fn f() =\t1  # one", "fn f() = 1  # one\n");
    becomes("fn f() = 1\t     # one", "fn f() = 1  # one\n");
    // A comment continues the one that ends right above it, unless it stands in the column where
    // the next line begins.
    becomes("fn f() = 1  # one\n\n            # two", "fn f() = 1  # one\n\n# two\n");
    becomes("fn f() {\n1   # one\n    # two\n}", "fn f() {\n    1  # one\n    # two\n}\n");
    becomes(
        "fn f() {\nlet a=  # one\n        # two\n1\na\n}",
        "fn f() {\n    let a =  # one\n        # two\n        1\n    a\n}\n",
    );
    // They are not aligned so far right that one leaves the page, except one that does so anyway.
    let (long, comment) = ("x".repeat(60), "c".repeat(83));
    let below = " ".repeat(15);
    stays(&format!("fn f() {{\n    let {long} = 1  # 1\n    let a = 2  # {comment}\n{below}# 3\n    a\n}}\n"));
    becomes(
        &format!("fn f() {{\n    let {long} = 1  # 1\n    let a = 2  # {comment}c\n    a\n}}\n"),
        &format!("fn f() {{\n    let {long} = 1  # 1\n    let a = 2{:61}# {comment}c\n    a\n}}\n", ""),
    );
}

#[test]
fn errors_are_those_of_reading() {
    let source = "fn f(x: foo) = x $\nfn g(";
    assert_eq!(format(source), Err(grammar::parse(source).unwrap_err()));
}

#[test]
fn large_programs_take_linear_time() {
    let result = |expr: String| format!("fn f() = {expr}\n");
    let deep = MAX_DEPTH as usize - 4;
    let million = 1 << 20;
    let sources = [
        result(format!("[{}]", "1, ".repeat(million / 3))),
        result(format!("[{}]", "1 + 2 * 3, ".repeat(million / 11))),
        result(format!("f({})", "g(x, y)[i] # c\n, ".repeat(million / 18))),
        result(format!("[{}]", format!("{}1,", "1+".repeat(deep)).repeat(million / 2 / deep))),
        result(format!("{}{}{}", "(".repeat(deep), "1".repeat(19), ")".repeat(deep))),
        result(format!("{}{}{}", "[".repeat(deep), "1,".repeat(million / 2), "]".repeat(deep))),
        result(format!("{}{}{}", "f(1,".repeat(deep), "a,".repeat(million / 2), ")".repeat(deep))),
        result(format!("{}x", "if c then a else ".repeat(deep))),
        result(format!("{}x{}", "if ".repeat(deep), " then a else b".repeat(deep))),
        result(format!("{}x", "1 ^ ".repeat(deep))),
        result(format!("{}x", "-".repeat(deep))),
        result(format!("x{}", "[i]".repeat(deep))),
        result(format!("{}1{}", "1+(2*".repeat(deep / 3), ")".repeat(deep / 3))),
        format!("fn f() {{ {} x }}", "let y = 1; # c\n".repeat(million / 15)),
        "# c\n".repeat(million / 4),
        "fn f() = 1 # c\n\n".repeat(million / 16),
        result("x".repeat(million)),
        result(format!("( {} 1)", "#\n".repeat(million / 2))),
        result(format!("( {} 1)", "\n".repeat(million))),
    ];
    for source in sources {
        let start = Instant::now();
        let begin = source[..source.len().min(30)].to_owned();
        // The stack of a worker thread.
        let formatted =
            std::thread::Builder::new().stack_size(2 << 20).spawn(move || format(&source)).unwrap().join().unwrap();
        let formatted = formatted.unwrap_or_else(|errors| panic!("{begin}: {errors:?}"));
        assert!(formatted.len() < 64 * million, "{begin}: {}", formatted.len());
        let seconds = start.elapsed().as_secs_f64();
        println!("{begin:?}: {seconds:.2} s, {} bytes", formatted.len());
        assert!(seconds < 20.0, "{begin}: {seconds} s");
    }
}

#[test]
fn loops() {
    stays("fn f(a: f64) = loop x = a, t < 100 while abs(x * x - a) > 1e-12 * a { (x + a / x) / 2 }\n");
    becomes(
        "fn f(x: f64) { let (_,k)=loop a=1,k=0 while a<x{let b=a+x\n(b,k+1)}\nk }",
        "fn f(x: f64) {\n    let (_, k) = loop a = 1, k = 0 while a < x {\n        let b = a + x\n        (b, k + 1)\n    }\n    k\n}\n",
    );
    becomes("fn f()=2*loop x=1,t<3{x}[0]+1", "fn f() = 2 * loop x = 1, t < 3 { x }[0] + 1\n");
    stays(
        "fn escape(c_re: f32[n], c_im: f32[n]) -> i32[n] {\n    \
             let (_, _, k)[i] = loop re = 0, im = 0, k = i32(0) while re * re + im * im < 4 && k < 200 {\n        \
                 (re * re - im * im + c_re[i], 2 * re * im + c_im[i], k + 1)\n    \
             }\n    \
             k\n}\n",
    );
    stays("fn f(x: f64) = loop t < 3, x = 1 {\n    # The step.\n    let y = x\n\n    y  # next\n}\n");
}
