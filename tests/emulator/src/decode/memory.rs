//! Loads, stores, atomic operations and fences.

use crate::decode::{Form, arrivals};
use crate::lanes::map;
use crate::op::{Access, Atomic, Op, Scope, Strength};
use crate::parse::Operand;
use crate::types::{Reg, Space, Type};
use crate::window;

const SCOPES: &[(&str, Scope)] = &[("cta", Scope::Block), ("gpu", Scope::Device), ("sys", Scope::Device)];

/// Where a load or store goes.
#[derive(Clone, Copy)]
enum Target {
    Parameter,
    Space(Option<Space>),
}

const SPACES: &[(&str, Target)] = &[
    ("param", Target::Parameter),
    ("global", Target::Space(Some(Space::Global))),
    ("shared", Target::Space(Some(Space::Shared))),
    ("shared::cta", Target::Space(Some(Space::Shared))),
    ("shared::cluster", Target::Space(Some(Space::Cluster))),
    ("local", Target::Space(Some(Space::Local))),
    ("const", Target::Space(Some(Space::Constant))),
];

/// The memory ordering of an access.
#[derive(Clone, Copy)]
struct Promise {
    strength: Strength,
    /// It acquires, or releases.
    ordered: bool,
    volatile: bool,
}

fn promise(form: &mut Form<'_, '_, '_>, ordered: &str) -> Result<Promise, String> {
    let weak = Promise { strength: Strength::Weak, ordered: false, volatile: false };
    if form.flag("volatile") {
        return Ok(Promise { strength: Strength::Strong(Scope::Device), volatile: true, ..weak });
    }
    if form.flag("relaxed") {
        return Ok(Promise { strength: Strength::Strong(form.choose(SCOPES)?), ..weak });
    }
    if form.flag(ordered) {
        return Ok(Promise { strength: Strength::Strong(form.choose(SCOPES)?), ordered: true, ..weak });
    }
    form.flag("weak");
    Ok(weak)
}

/// Cache hints of a load or store, which change no result, and whether it reads constants.
fn hints(
    form: &mut Form<'_, '_, '_>,
    promise: Promise,
    space: Option<Space>,
    operators: &[(&str, ())],
) -> Result<bool, String> {
    let weak = promise.strength == Strength::Weak;
    let global = matches!(space, None | Some(Space::Global));
    if !weak && !global && space != Some(Space::Shared) {
        return Err("nobody else sees that space".into());
    }
    let mut operator = form.pick(operators);
    let constant = form.flag("nc");
    operator = operator.or_else(|| form.pick(operators));
    if operator.is_some() && !weak {
        return Err("a cache operator on an access that is not weak".into());
    }
    let first = ["L1::no_allocate", "L1::evict_last", "L1::evict_first", "L1::evict_normal", "L1::evict_unchanged"];
    if form.pick(&first.map(|name| (name, ()))).is_some() && (!global || promise.volatile) {
        return Err("the first cache takes no advice there".into());
    }
    Ok(constant)
}

/// The number of elements and their type.
fn elements(form: &mut Form<'_, '_, '_>) -> Result<(usize, Type), String> {
    let count = form.pick(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let ty = form.ty()?;
    let packed = matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::Pred | Type::F16 | Type::Bf16);
    if packed || count * ty.bytes() as usize > 16 {
        return Err(format!("no access to {count} elements of `.{}`", ty.name()));
    }
    Ok((count, ty))
}

/// The registers of an access and the width of each. A store may have constants too.
fn registers(form: &mut Form<'_, '_, '_>, count: usize, ty: Type, store: bool) -> Result<(Vec<Reg>, u32), String> {
    let operand = form.operand()?;
    let parts = match operand {
        Operand::Vector(parts) if count > 1 => parts.as_slice(),
        _ if count == 1 => std::slice::from_ref(operand),
        _ => return Err("a vector expected".into()),
    };
    if parts.len() != count {
        return Err(format!("{} registers for {count} elements", parts.len()));
    }
    let mut rows = vec![];
    let mut width = None;
    for part in parts {
        if store && !matches!(part, Operand::Name(_)) {
            rows.push(form.source_of(part, ty)?);
            continue;
        }
        let (row, register) = form.wide(part, ty)?;
        rows.push(row);
        if *width.get_or_insert(register.bits()) != register.bits() {
            return Err("registers of different widths".into());
        }
    }
    Ok((rows, width.unwrap_or(0)))
}

pub(super) fn ld(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let promise = promise(form, "acquire")?;
    let target = form.pick(SPACES).unwrap_or(Target::Space(None));
    let Target::Space(space) = target else {
        if promise.strength != Strength::Weak {
            return Err("parameters are constant".into());
        }
        let (count, ty) = elements(form)?;
        let (into, register) = registers(form, count, ty, false)?;
        return Ok(Op::LoadParameter { into, at: parameter(form, ty.bytes() * count as u32)?, ty, register });
    };
    let constant = hints(form, promise, space, &["ca", "cg", "cs", "lu", "cv"].map(|name| (name, ())))?;
    let ahead = form.pick(&["L2::64B", "L2::128B", "L2::256B"].map(|name| (name, ())));
    if ahead.is_some() && !matches!(space, None | Some(Space::Global)) {
        return Err("only global memory is fetched ahead".into());
    }
    let strength = match promise.strength {
        Strength::Weak if constant && space == Some(Space::Global) => Strength::Constant,
        _ if constant => return Err("`.nc` is for weak loads of global memory".into()),
        strength => strength,
    };
    let (count, ty) = elements(form)?;
    let (into, register) = registers(form, count, ty, false)?;
    let at = form.address(space)?;
    let access = Access { space, ty, strength, acquire: promise.ordered, release: false };
    Ok(Op::Load { into, at, access, register })
}

/// Copies from global to shared memory, made at some time before they are waited for. Those that
/// bypass the L1 cache are of 16 bytes.
pub(super) fn cp(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("async", ())])?;
    if form.flag("bulk") {
        return arrivals::copy_box(form);
    }
    if form.flag("wait_all") {
        return Ok(Op::AwaitCopies { but: None });
    }
    if form.flag("commit_group") {
        return Ok(Op::GroupCopies);
    }
    if form.flag("wait_group") {
        return match *form.operand()? {
            Operand::Integer(but @ 0..=255) => Ok(Op::AwaitCopies { but: Some(but as u32) }),
            ref other => Err(format!("a number of groups expected, not `{other:?}`")),
        };
    }
    let sizes: &[i128] = form.choose(&[("ca", [4, 8, 16].as_slice()), ("cg", &[16])])?;
    form.choose(&[("shared", ())])?;
    form.choose(&[("global", ())])?;
    let (to, from) = (form.address(Some(Space::Shared))?, form.address(Some(Space::Global))?);
    let bytes = match *form.operand()? {
        Operand::Integer(size) if sizes.contains(&size) => size as u32,
        ref other => return Err(format!("one of {sizes:?} bytes expected, not `{other:?}`")),
    };
    let read = if form.peek().is_some() { form.source(Type::U32)? } else { form.constant(u64::from(bytes)) };
    Ok(Op::Copy { to, from, bytes, read })
}

/// The address, in another block of the cluster, that corresponds to an address in one's own.
pub(super) fn mapa(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("shared::cluster", ())])?;
    form.choose(&[("u64", ())])?;
    form.map(map!(|a: u64, b: u32| window::in_cluster(a, b)), Type::U64, &[Type::U64, Type::U32])
}

/// The rows of matrices in shared memory.
pub(super) fn ldmatrix(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("sync", ())])?;
    form.choose(&[("aligned", ())])?;
    form.choose(&[("m8n8", ())])?;
    let count = form.choose(&[("x1", 1), ("x2", 2), ("x4", 4)])?;
    let transposed = form.flag("trans");
    form.choose(&[("shared", ())])?;
    form.choose(&[("b16", ())])?;
    let into = form.vector(count, Type::B32)?;
    let at = form.address(Some(Space::Shared))?;
    Ok(Op::LoadMatrices { into, at, transposed, mask: form.constant(u64::from(u32::MAX)) })
}

/// The position of a parameter or a part of one, aligned to its size.
fn parameter(form: &mut Form<'_, '_, '_>, bytes: u32) -> Result<u32, String> {
    let Operand::Address(name, offset) = *form.operand()? else {
        return Err("the name of a parameter expected".into());
    };
    let (start, length) = form.body.parameter_at(name).ok_or_else(|| format!("no parameter `{name}`"))?;
    let inside = u32::try_from(offset).ok().filter(|o| o.checked_add(bytes).is_some_and(|end| end <= length));
    match inside {
        Some(offset) if (start + offset).is_multiple_of(bytes) => Ok(start + offset),
        Some(offset) => Err(format!("`{name}+{offset}` is not aligned")),
        None => Err(format!("`{name}+{offset}` is past the end of the parameter")),
    }
}

pub(super) fn st(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let promise = promise(form, "release")?;
    let space = match form.pick(SPACES).unwrap_or(Target::Space(None)) {
        Target::Space(Some(Space::Constant)) | Target::Parameter => return Err("that space is constant".into()),
        Target::Space(space) => space,
    };
    if hints(form, promise, space, &["wb", "cg", "cs", "wt"].map(|name| (name, ())))? {
        return Err("`.nc` is for loads".into());
    }
    let (count, ty) = elements(form)?;
    let at = form.address(space)?;
    let (from, _) = registers(form, count, ty, true)?;
    let access = Access { space, ty, strength: promise.strength, acquire: false, release: promise.ordered };
    Ok(Op::Store { from, at, access })
}

/// The atomic operations, with the types that each supports.
const ATOMICS: &[(&str, Atomic, &[Type])] = &[
    ("add", Atomic::Add, &[Type::U32, Type::S32, Type::U64, Type::F32, Type::F64]),
    ("min", Atomic::Min, &[Type::U32, Type::S32, Type::U64, Type::S64]),
    ("max", Atomic::Max, &[Type::U32, Type::S32, Type::U64, Type::S64]),
    ("and", Atomic::And, &[Type::B32, Type::B64]),
    ("or", Atomic::Or, &[Type::B32, Type::B64]),
    ("xor", Atomic::Xor, &[Type::B32, Type::B64]),
    ("exch", Atomic::Exchange, &[Type::B32, Type::B64]),
    ("cas", Atomic::CompareAndSwap, &[Type::B32, Type::B64]),
    ("inc", Atomic::Increment, &[Type::U32]),
    ("dec", Atomic::Decrement, &[Type::U32]),
];

/// Acquiring, releasing.
const ORDERS: &[(&str, (bool, bool))] =
    &[("relaxed", (false, false)), ("acquire", (true, false)), ("release", (false, true)), ("acq_rel", (true, true))];

fn atomic(form: &mut Form<'_, '_, '_>, answers: bool) -> Result<Op, String> {
    let (acquire, release) = form.pick(ORDERS).unwrap_or((false, false));
    if acquire && !answers {
        return Err("what reads nothing cannot acquire".into());
    }
    let scope = form.pick(SCOPES).unwrap_or(Scope::Device);
    let space = match form.pick(SPACES) {
        None => None,
        Some(Target::Space(space @ Some(Space::Global | Space::Shared))) => space,
        Some(_) => return Err("atomics are for global and shared memory".into()),
    };
    let name = form.modifier()?;
    let ty = form.ty()?;
    let found = ATOMICS.iter().find(|(n, _, types)| *n == name && types.contains(&ty));
    let &(_, how, _) = found.ok_or_else(|| format!("no `.{name}` of `.{}`", ty.name()))?;
    if !answers && matches!(how, Atomic::Exchange | Atomic::CompareAndSwap) {
        return Err(format!("`.{name}` is for its answer"));
    }
    let d = if answers { Some(form.dest(ty)?) } else { None };
    let at = form.address(space)?;
    let b = form.source(ty)?;
    let c = if how == Atomic::CompareAndSwap { form.source(ty)? } else { b };
    let access = Access { space, ty, strength: Strength::Strong(scope), acquire, release };
    Ok(Op::Atomic { how, d, at, b, c, access })
}

pub(super) fn atom(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    atomic(form, true)
}

pub(super) fn red(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    atomic(form, false)
}

/// Sequentially consistent fences order at least as much as the others; more is not modelled.
pub(super) fn fence(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if form.flag("mbarrier_init") {
        form.choose(&[("release", ())])?;
        form.choose(&[("cluster", ())])?;
        return Ok(Op::FenceTiles);
    }
    if form.flag("proxy") {
        form.choose(&[("async", ())])?;
        form.flag("shared::cta");
        return Ok(Op::FenceTiles);
    }
    form.choose(&[("acq_rel", ()), ("sc", ())])?;
    Ok(Op::Fence { scope: form.choose(SCOPES)? })
}

pub(super) fn membar(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    Ok(Op::Fence { scope: form.choose(&[("cta", Scope::Block), ("gl", Scope::Device), ("sys", Scope::Device)])? })
}
