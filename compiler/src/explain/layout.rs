//! Where the iterations of a part run on a GPU, in words: how many a thread and a block take, for
//! which sizes, and why not in the ways that would have come first.

use ir::Size;
use ir::order::Scope;
use ir::sched::{Axis, Fill, Inner, Part, Refusal, Row, Strategy, Variant};

use super::Known;

/// Each way in which a part runs. With sizes, those that are not for them are left out.
pub(super) fn ways(part: &Part, known: &Known<'_>) -> Vec<String> {
    let mut ways = vec![];
    for (number, variant) in part.variants.iter().enumerate() {
        let value = |size: &Size| known.size(size).as_constant();
        let length = variant.row().and_then(|row| value(&row.length));
        let too_large = |(size, most): &(Size, i64)| value(size).is_some_and(|n| n > *most);
        let unfit = variant.row().zip(length).is_some_and(|(row, length)| !row.fits(length));
        if unfit || variant.at_most.iter().any(too_large) {
            continue;
        }
        // Rows that fill all units run like those that may not, only without masks.
        let masked = |row: &Row| {
            let twin = |other: &Row| other.fill == Fill::Masked && other.levels == row.levels;
            part.variants.iter().filter_map(Variant::row).any(twin)
        };
        if variant.row().is_some_and(|row| row.fill == Fill::Whole && length.is_none() && masked(row)) {
            continue;
        }
        let when = variant.at_most.iter().map(|(size, most)| format!("{} is at most {most}", known.sizes.text(size)));
        let when: Vec<String> = when.collect();
        let certain = variant.at_most.iter().all(|(size, _)| value(size).is_some());
        let others = number > 0 && !matches!(variant.inner, Inner::Row(_)) && length.is_none();
        let condition = match (when.is_empty() || certain, others) {
            (false, _) => format!("if {}: ", when.join(" and ")),
            (true, true) if ways.is_empty() => String::new(),
            (true, true) => "otherwise: ".to_owned(),
            (true, false) => String::new(),
        };
        ways.push(format!("{condition}{}", way(variant, length)));
        // The first one that fits runs, unless it is only for some devices.
        let everywhere = variant.row().is_none_or(|row| row.staged().is_empty() && row.unit() != Scope::Cluster);
        if everywhere && (length.is_some() || (variant.row().is_none() && certain && !when.is_empty())) {
            break;
        }
    }
    ways
}

/// Why a part does not run in ways that would have come first.
pub(super) fn refusals(part: &Part) -> Vec<String> {
    part.refused
        .iter()
        .filter_map(|(strategy, refusal)| Some(format!("{}: {}", name(*strategy)?, why(*refusal)?)))
        .collect()
}

/// A way to run a part whose rows have this length, if it is known.
fn way(variant: &Variant, length: Option<i64>) -> String {
    let threads = variant.threads();
    let block = format!("{threads} threads a block");
    let end = if variant.descending { ", from the end of the arrays" } else { "" };
    let of = |scope: Scope| variant.axes.iter().map(|axis| axis.count(|other| other == scope)).product::<i64>();
    match &variant.inner {
        Inner::Alone if let [stage, ..] = variant.stages.as_slice() => {
            let sides: Vec<String> =
                stage.axes.iter().filter(|a| a.of_block() > 1).map(|a| a.of_block().to_string()).collect();
            format!("tiles of {} elements, which pass through shared memory, {block}", sides.join(" by "))
        }
        Inner::Alone => match (of(Scope::Vector), of(Scope::Register)) {
            (1, 1) => format!("one iteration a thread, {block}"),
            (1, rows) => format!("{rows} rows of a column a thread, {block}"),
            (width, 1) => format!("{width} neighbours a thread, {block}{end}"),
            (width, times) => format!("{times} times {width} neighbours a thread, {block}{end}"),
        },
        Inner::Together(one) => match variant.axes.first().map_or(1, Axis::of_block) {
            1 => format!("one iteration a block of {threads} threads"),
            columns if *one == 1 => format!("{columns} columns a block, one thread a column"),
            columns => format!("{columns} columns a block, {one} threads a column"),
        },
        Inner::Row(row) => of_row(row, length),
    }
}

/// How rows of some lengths run.
fn of_row(row: &Row, length: Option<i64>) -> String {
    let unit = match row.unit() {
        Scope::Cluster => format!("a cluster of {} blocks", row.blocks()),
        Scope::Block if row.groups() == 1 => format!("a block of {} threads", row.most_threads()),
        Scope::Block => match length {
            Some(length) => format!("a block of {} threads", row.threads(length)),
            None => format!("a block of up to {} threads", row.most_threads()),
        },
        Scope::Vector | Scope::Register | Scope::Memory | Scope::Warp | Scope::Grid => "a warp".to_owned(),
    };
    let each = row.each();
    let Some(beyond) = row.beyond() else {
        let lengths = match (length, row.at_least) {
            (Some(_), 0) => String::new(),
            (Some(_), _) => "on devices with clusters: ".to_owned(),
            (None, 0) => format!("rows of up to {} elements: ", row.capacity()),
            (None, least) => format!("rows of {least} to {} elements, on devices with clusters: ", row.capacity()),
        };
        return format!("{lengths}{unit} a row, {each} elements a thread, in registers");
    };
    let rest =
        if beyond.staged.is_empty() { "the others from memory" } else { "the others in shared memory, if they fit" };
    let rows = if length.is_none() { "longer rows: " } else { "" };
    format!("{rows}{unit} a row, with {} elements in registers, {rest}", row.capacity())
}

/// A strategy in words, if it is one that a reader would look for.
fn name(strategy: Strategy) -> Option<&'static str> {
    match strategy {
        Strategy::Tiles => Some("not in tiles"),
        Strategy::Stencil => Some("not several rows a thread"),
        Strategy::Vectors => Some("not several neighbours a thread"),
        Strategy::Threads => Some("not one iteration a thread"),
        Strategy::Strips => Some("not in strips of columns"),
        Strategy::Rows => Some("not with rows in registers"),
        Strategy::Blocks => None,
    }
}

/// A reason in words, unless it holds for most programs.
fn why(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::NotAcross | Refusal::NotTwoIndices | Refusal::NotDown | Refusal::Chosen | Refusal::Long => None,
        Refusal::InPlace => Some("it stores to memory that it also reads"),
        Refusal::TooLarge => Some("the tiles do not fit into shared memory"),
        Refusal::NoOverlap => Some("no two reads of one array are a fixed distance apart"),
        Refusal::Loops => Some("an iteration has loops"),
        Refusal::Scratch => Some("an iteration has scratch"),
        Refusal::NotRows => Some("not all of its loops go over one length in an order that threads can share"),
        Refusal::TooMany => Some("it has more reductions than shared memory has room for"),
        Refusal::NotAlong => Some("no access goes along memory"),
        Refusal::Data => Some("data decide how many iterations there are"),
    }
}
