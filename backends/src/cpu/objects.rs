//! Leaves in object files: their machine code is the same there as in memory, and independent of
//! its address.

use cranelift_module::{FuncId, Module, default_libcall_names};
use cranelift_object::object::{Object, ObjectSection, read};
use cranelift_object::{ObjectBuilder, ObjectModule};
use ir::sched::Machine;
use schedule::schedule;

use super::compile::{CodeGens, define};
use super::jit::{self, Called, Code, Effort, Host};
use super::machine::Isa;
use super::object::Target;
use super::options::Simd;

/// Kernels with constants, scalars, numbers of elements, bytes, a gather, a reduction by lanes, and
/// one in any order.
const PROGRAM: &str = "program @p { symbol n = dim 0 of input 0
    input 0 %x: f32[n] input 1 %k: u8[n] input 2 %t: f32[256] input 3 %s: f32[]
    output 0 %y: f32[n] output 1 %b: bool[n] output 2 %sum: f32[] output 3 %most: i32[]
    kernel @leaf { parallel i < n { v0 = load %x[i] v1 = load %k[i] v2 = cast i64 v1 v3 = load %t[v2] v4 = load %s[]
      v5 = affine i v6 = cast i32 v5 v7 = cast f32 v6 v8 = const f32 0.3 v9 = fma v0, v8, v3 v10 = sub v9, v7
      v11 = div v10, v4 store %y[i], v11 v12 = lt v11, v8 store %b[i], v12 } }
    kernel @sums { v90, v91 = reduce i < n { v0 = load %x[i] v1 = load %k[i] v2 = cast i32 v1 }
      with sum lanes v0, max free v2 store %sum[], v90 store %most[], v91 } }";

/// The functions of leaves, which have no names.
fn leaves(module: &dyn Module) -> Vec<FuncId> {
    let all = module.declarations().get_functions();
    all.filter(|(_, declaration)| declaration.name.is_none()).map(|(id, _)| id).collect()
}

#[test]
fn leaves_are_the_same_wherever_they_lie() {
    let scheduled = schedule(&PROGRAM.parse().unwrap(), Machine::CPU).unwrap();
    for simd in [Simd::W256, Simd::W512].into_iter().filter(|simd| simd.is_here()) {
        let codegens = CodeGens { best: jit::machine(Effort::Best).unwrap(), leaf_callers: None };
        let mut here = jit::module(codegens.best.clone());
        define(&mut here, &mut Called::new(Host::Here), &scheduled, Isa::of(simd), &codegens).unwrap();
        here.finalize_definitions().unwrap();
        let ids = leaves(&here);
        assert!(ids.len() >= 2, "{simd:?}: {} leaves", ids.len());

        let machine = Target::new(None, Some("native")).unwrap().machine(Effort::Best).unwrap();
        let codegens = CodeGens { best: machine.clone(), leaf_callers: None };
        let mut there = ObjectModule::new(ObjectBuilder::new(machine, "leaves", default_libcall_names()).unwrap());
        define(&mut there, &mut Called::new(Host::Anywhere), &scheduled, Isa::of(simd), &codegens).unwrap();
        assert_eq!(leaves(&there), ids);
        let product = there.finish();
        let ranges: Vec<_> = ids.iter().map(|id| product.object.symbol(product.function_symbol(*id))).collect();
        let ranges: Vec<_> = ranges.into_iter().map(|symbol| symbol.value..symbol.value + symbol.size).collect();
        let file = product.emit().unwrap();
        let file = read::File::parse(&*file).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let bytes = text.data().unwrap();
        for (id, range) in ids.iter().zip(&ranges) {
            assert!(range.start.is_multiple_of(64));
            let bytes = &bytes[range.start as usize..range.end as usize];
            // SAFETY: if it is the same, the function was defined with at least this many bytes. It
            // is in readable memory that lives as long as its module.
            let same = unsafe { std::slice::from_raw_parts(here.get_finalized_function(*id), bytes.len()) };
            assert!(bytes == same, "{simd:?}");
        }
        for (at, relocation) in text.relocations() {
            assert!(!ranges.iter().any(|range| range.contains(&at)), "{simd:?}: {relocation:?} in a leaf");
        }
        drop(Code::new(here));
    }
}
