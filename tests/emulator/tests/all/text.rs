//! Texts outside of the subset are refused at the right line. Syntax around instructions is read.

use emulator::Module;

use crate::common::{Random, line_of};
use crate::programs::programs;

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

/// Asserts that the text after the head is refused on the line of `// here`, for a reason that
/// contains `why`.
fn refused(text: &str, why: &str) {
    let error = Module::parse(&format!("{HEAD}{text}")).expect_err(text);
    assert!(error.what.contains(why), "{text}: {error}");
    assert_eq!(error.line, line_of(text, "// here"), "{text}: {error}");
}

fn instruction(code: &str, why: &str) {
    let registers = ".reg .pred %p;\n.reg .b16 %h;\n.reg .b32 %r<4>;\n.reg .u64 %d;\n.reg .f32 %f;\n.shared .b32 s[4];";
    refused(&format!(".entry k(.param .u32 a)\n{{\n{registers}\n{code} // here\nret;\n}}\n"), why);
}

#[test]
fn instructions_outside_of_the_subset() {
    instruction("frobnicate.u32 %r0, %r1;", "`frobnicate`");
    instruction("add.u32 %r0, %r1;", "missing");
    instruction("add.u32 %r0, %r1, %r2, %r3;", "too many");
    instruction("add.ftz.f32 %f, %f, %f;", "`.ftz`");
    instruction("add.f16x2 %r0, %r1, %r2;", "f16x2");
    instruction("div.approx.f64 %d, %d, %d;", "f64");
    instruction("div.rz.f32 %f, %f, %f;", "`.rz`");
    instruction("fma.f32 %f, %f, %f, %f;", "rounding");
    instruction("fma.rz.f64 %d, %d, %d, %d;", "f64");
    instruction("mul.u32 %r0, %r1, %r2;", "u32");
    instruction("cvt.f32.s32 %f, %r0;", "rounding");
    instruction("cvt.s32.f32 %r0, %f;", "rounding");
    instruction("cvt.rn.s32.f32 %r0, %f;", "rounding");
    instruction("cvt.rzi.f32.s32 %f, %r0;", "rounding");
    instruction("cvt.rn.f64.f32 %d, %f;", "rounding");
    instruction("cvt.sat.u32.u16 %r0, %h;", "saturates");
    instruction("cvt.rn.sat.bf16.f32 %h, %f;", "saturates");
    instruction("cvt.rn.bf16.u8 %h, %h;", "u8");
    instruction("set.lt.f32.bf16 %f, %h, %h;", "bf16");
    instruction("lop3.b32 %r0, %r1, %r2, %r3, %r0;", "table");
    instruction("lop3.b32 %r0, %r1, %r2, %r3, 256;", "table");
    instruction("mov.bf16 %h, %h;", "bf16");
    instruction("bar.sync %r0;", "barrier");
    instruction("shfl.idx.b32 %r0, %r1, 0, 31;", "sync");
    instruction("ld.global.nc.u32.v2 %r0, [%d];", "v2");
    instruction("ld.shared.nc.u32 %r0, [s];", "nc");
    instruction("ld.global.u32 %r0, [%d-4];", "`]`");
    instruction("ld.global.u32 %r0, [16];", "name");
    instruction("ld.shared.L1::no_allocate.u32 %r0, [s];", "first cache");
    instruction("ld.volatile.global.L1::evict_last.u32 %r0, [%d];", "first cache");
    instruction("ld.relaxed.gpu.global.cg.u32 %r0, [%d];", "weak");
    instruction("ld.shared.L2::128B.u32 %r0, [s];", "ahead");
    instruction("st.global.L2::128B.u32 [%d], %r0;", "L2::128B");
    instruction("ld.relaxed.gpu.const.u32 %r0, [%d];", "nobody else");
    instruction("ld.acquire.u32 %r0, [%d];", "cta");
    instruction("ld.global.v4.u64 {%d, %d, %d, %d}, [%d];", "elements");
    instruction("ld.global.v2.u32 %r0, [%d];", "vector");
    instruction("st.param.u32 [a], %r0;", "constant");
    instruction("atom.global.sub.u32 %r0, [%d], 1;", "sub");
    instruction("red.acquire.gpu.global.add.u32 [%d], 1;", "acquire");
    instruction("atom.local.add.u32 %r0, [%d], 1;", "global and shared");
    instruction("bra $nowhere;", "label");
    instruction("call f;", "`call`");
}

#[test]
fn targets_have_what_came_with_them() {
    let text = |target: &str, code: &str| {
        let registers = ".reg .pred %p; .reg .b16 %h; .reg .b32 %r; .reg .f32 %f;";
        format!(".version 8.0\n.target {target}\n.address_size 64\n.entry k()\n{{\n{registers}\n{code}\nret;\n}}\n")
    };
    for code in
        ["add.bf16 %h, %h, %h;", "mul.rn.bf16 %h, %h, %h;", "setp.lt.bf16 %p, %h, %h;", "cvt.rn.bf16.s32 %h, %r;"]
    {
        let error = Module::parse(&text("sm_80", code)).expect_err(code);
        assert!(error.what.contains("sm_90") && error.line == 7, "{error}");
        assert!(Module::parse(&text("sm_90a", code)).is_ok());
    }
    for code in ["fma.rn.bf16 %h, %h, %h, %h;", "cvt.rn.bf16.f32 %h, %f;", "cvt.f32.bf16 %f, %h;"] {
        assert!(Module::parse(&text("sm_80", code)).is_ok());
    }
}

#[test]
fn operands_that_do_not_fit() {
    instruction("add.u32 %r0, %r1, %d;", "u64");
    instruction("add.f32 %r0, %f, 1;", "f32");
    instruction("add.u32 %f, %r0, %r1;", "f32");
    instruction("add.u32 %r0, %r1, %r4;", "%r4");
    instruction("add.u32 %r0, %r1, %r01;", "%r01");
    instruction("add.u32 %r0, %r1, 4294967296;", "range");
    instruction("add.u32 %r0, %r1, 0f3F800000;", "u32");
    instruction("mov.u32 %r0, %tid;", "%tid");
    instruction("mov.u64 %d, %tid.x;", "%tid");
    instruction("mov.u32 %p, 1;", "predicate");
    instruction("mov.b64 %d, {%r0, %r1, %r2};", "parts");
    instruction("setp.lo.s32 %p, %r0, %r1;", "lo");
    instruction("setp.lt.b32 %p, %r0, %r1;", "lt");
    instruction("setp.ltu.u32 %p, %r0, %r1;", "ltu");
    instruction("selp.u32 %r0, %r1, %r2, %r3;", "%r3");
    instruction("@%r0 mov.u32 %r0, 1;", "%r0");
    instruction("ld.global.u32 %r0, [%r1];", "address");
    instruction("ld.global.u32 %r0, [s];", "another space");
    instruction("ld.global.u32 %h, [%d];", "b16");
    instruction("ld.param.u64 %d, [a];", "past the end");
    instruction("ld.param.u16 %h, [a+1];", "aligned");
    instruction("ld.param.u32 %r0, [b];", "`b`");
    instruction("st.const.u32 [%d], %r0;", "constant");
}

#[test]
fn modules_outside_of_the_subset() {
    refused(".func f() { } // here", "`.func`");
    refused(".tex .u32 t; // here", "`.tex`");
    refused(".extern .global .u32 g[]; // here", "extern");
    refused(".global .u32 g[2] = {1, 2, 3}; // here", "room");
    refused(".global .u8 g = 256; // here", "range");
    refused(".global .u32 g; .shared .u32 g; // here", "twice");
    refused(".entry k() { ret; }\n.entry k() { ret; } // here", "twice");
    refused(".entry k(.param .u32 a, .param .u32 a) { ret; } // here", "twice");
    refused(".entry k() .maxnreg 32 { ret; } // here", "`.maxnreg`");
    refused(".entry k() {\n.reg .u32 %r; .reg .u32 %r; // here\nret; }", "twice");
    refused(".entry k() {\n$a: $a: // here\nret; }", "again");
    refused(".entry k() {\n# // here\nret; }", "token");
    refused(".entry k() {\n.branchtargets $a; // here\nret; }", "`.branchtargets`");
    refused(".entry k() {\nret } // here", "operand");
    let error = Module::parse(".version 8.0\n.target texmode_unified\n").expect_err("no such target");
    assert_eq!(error.line, 2);
    let error = Module::parse(".address_size 32\n").expect_err("no such addresses");
    assert!(error.what.contains("32"));
}

#[test]
fn sizes_have_limits() {
    refused(".shared .b8 a[1048577]; // here", "large");
    refused(".shared .u64 a[4294967295]; // here", "large");
    refused(".shared .align 2048 .b8 a[1]; // here", "alignment");
    refused(".shared .align 3 .b8 a[1]; // here", "alignment");
    refused(".entry k(.param .b8 a[4096], .param .b8 b[4096]) { ret; } // here", "parameters");
    refused(".entry k() {\n.local .b8 a[524289]; // here\nret; }", "local");
    let many: String = (0..17).map(|i| format!(".shared .b8 a{i}[1048576];")).collect();
    refused(&format!("{many} // here"), "room");
}

/// Texts with tokens left out, doubled and swapped: each is read or refused.
#[test]
fn no_text_is_a_panic() {
    let mut random = Random(11);
    for text in programs() {
        let tokens: Vec<&str> = text.split_inclusive([' ', ',', ';', '.', '[', ']', '\n']).collect();
        let mut read = 0;
        for _ in 0..400 {
            let mut changed = tokens.clone();
            for _ in 0..1 + random.next() % 2 {
                let [at, other] = [random.next(), random.next()].map(|n| (n >> 8) as usize % changed.len());
                match random.next() % 4 {
                    0 => drop(changed.remove(at)),
                    1 => changed.insert(at, tokens[other]),
                    2 => changed.swap(at, other),
                    _ => changed[at] = changed[other],
                }
            }
            read += usize::from(Module::parse(&format!("{HEAD}{}", changed.concat())).is_ok());
        }
        assert!((1..400).contains(&read), "{read} of 400 texts are read");
    }
}

#[test]
fn what_debuggers_read_is_passed_over() {
    let text = "/* a comment\n * of two lines **/\n.file 1 \"kernel.fl\"\n.visible .entry k()\n.maxntid 32, 1, 1 .minnctapersm 2\n{\n\
        .loc 1 2 3, function_name $x, inlined_at 1 2 3\n.pragma \"nounroll\";\n// nothing\n{ .reg .u32 %r; mov.u32 %r, 1; }\n\
        { .reg .f32 %r; mov.f32 %r, 1.5; }\nret;\n}\n";
    assert!(Module::parse(&format!("{HEAD}{text}")).is_ok());
}
