//! The passes on IR text: programs before a pass are written here, scheduled programs after it are
//! snapshots. The verifier accepts both, and the text of a scheduled program can be read back.

use insta::assert_snapshot;
use ir::Size;
use ir::choice::{Choice, Policy};
use ir::nest::Program;
use ir::sched::time_tiles::{Rows, TimeTiles};
use ir::sched::{Machine, Run, Scheduled};
use schedule::pipeline::Pass;
use schedule::{
    across, borders, carry, checks, columns, descend, forms, forward, jam, join, masks, orders, prepare, rows,
    schedule_with, split, strategies, tile, transpose,
};

/// A program with one kernel and the arrays that the tests need.
fn program(arrays: &str, body: &str) -> Program {
    let text = format!("program @p {{ symbol n = dim 0 of input 0 {arrays} kernel @k {{ {body} }} }}");
    let program: Program = text.parse().expect("a program");
    ir::verify::verify(&program).expect("a program that keeps the rules");
    program
}

/// A program after some passes.
fn after(passes: &[Pass], program: &Program, machine: Machine) -> Scheduled {
    let mut scheduled = Scheduled::new(program, machine);
    for pass in passes {
        pass(&mut scheduled, &mut Choice::default());
        ir::sched::verify(&scheduled).expect("a schedule that keeps the rules");
    }
    // Quotients may be read back in a simpler form, which then stays the same.
    let again: Scheduled = scheduled.to_string().parse().expect("text that reads back");
    assert_eq!(again.to_string().parse().as_ref(), Ok(&again));
    ir::sched::verify(&again).expect("text that keeps the rules");
    scheduled
}

const SUM: &str = "v1 = reduce a < n { v2 = load %x[a] v4 = mul v2, v2 } with sum lanes v4 store %y[], v1";
const SCAN: &str = "scan a < n { v1 = load %x[a] v2 = prefix sum v1 store %y[a], v2 }";
const COLUMNS_AND_ROWS: &str =
    "parallel j < m { v1 = reduce i < n { v0 = load %x[i, j] } with sum blocks v0 store %y[j], v1 }
    parallel k < n { v3 = reduce l < m { v2 = load %x[k, l] } with max free v2 store %z[k], v3 }";
const MATRIX: &str = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m]";

#[test]
fn contractions_become_loops_where_they_are_not_kept() {
    let product = |dtype: &str| {
        let arrays = format!("input 0 %x: {dtype}[n, 8] input 1 %y: {dtype}[8, n] output 0 %z: {dtype}[n, n]");
        let body = "v2 = contract i < n, j < n over k < 8 {
            left { v0 = load %x[i, k] yield v0 } right { v1 = load %y[k, j] yield v1 } epilogue { store %z[i, j], v2 } }";
        program(&arrays, body)
    };
    assert_snapshot!(after(&[prepare::prepare], &product("i32"), Machine::CPU));
    for machine in Machine::ALL {
        let text = after(&[prepare::prepare], &product("f32"), machine).to_string();
        assert!(text.contains("contract"), "{text}");
    }
}

/// The product of a vector and a matrix is added up in the order in which the matrix is in memory.
#[test]
fn products_with_vectors_have_an_order() {
    let arrays = "symbol m = dim 1 of input 1 input 0 %x: f32[n] input 1 %y: f32[n, m] output 0 %z: f32[m]";
    for (said, order) in [(" blocks", "sum blocks"), ("", "sum lanes")] {
        let body = format!(
            "v2 = contract j < m over k < n{said} {{
                left {{ v0 = load %x[k] yield v0 }} right {{ v1 = load %y[k, j] yield v1 }}
                epilogue {{ store %z[j], v2 }} }}"
        );
        let text = after(&[prepare::prepare], &program(arrays, &body), Machine::PTX).to_string();
        assert!(text.contains(order), "{text}");
    }
}

/// The weights of a convolution are the same for all elements; one on the inner index alone stays.
#[test]
fn a_condition_stands_in_one_factor() {
    let arrays = "symbol f = dim 1 of input 1 input 0 %x: f32[n] input 1 %w: f32[3, f] output 0 %y: f32[n, f]";
    let condition = |[a, b, c, d, e, g]: [&str; 6]| {
        format!("{a} = affine i + r {b} = lt v20, {a} {c} = lt {a}, v21 {d} = and {b}, {c} {e} = lt {g}, v21")
    };
    let left = condition(["v0", "v1", "v2", "v3", "v4", "v5"]);
    let right = condition(["v10", "v11", "v12", "v13", "v14", "v15"]);
    let body = format!(
        "v20 = const i64 0 v21 = affine n v22 = const f32 0.0
        v19 = contract i < n, o < f over r < 3 {{
            left {{ v5 = affine r {left} v6 = and v3, v4 v7 = if v6 {{ v8 = load %x[i + r - 1] yield v8 }} else {{ yield v22 }} yield v7 }}
            right {{ v15 = affine r {right} v16 = and v13, v14 v17 = load %w[r, o] v18 = select v16, v17, v22 yield v18 }}
            epilogue {{ store %y[i, o], v19 }} }}"
    );
    assert_snapshot!(after(&[masks::masks], &program(arrays, &body), Machine::CPU));
}

/// A softmax of rows of a product, times a matrix: in tiles of rows, or with arrays between. The
/// sum goes from one loop to the next in memory, and the scale is the same in all iterations.
#[test]
fn rows_of_products_run_together() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] input 1 %w: f32[m, m] output 0 %z: f32[n, m]
        scratch %s: f32[m]";
    let body = "parallel i < n {
        v0 = affine m v1 = cast f32 v0
        v4 = contract k < m over j < m {
            left { v2 = load %x[i, j] yield v2 } right { v3 = load %w[j, k] yield v3 } epilogue { store %s[k], v4 } }
        v6 = reduce a < m { v5 = load %s[a] } with sum lanes v5
        v9 = contract p < m over q < m {
            left { v7 = load %s[q] v10 = div v7, v6 yield v10 } right { v8 = load %w[q, p] yield v8 }
            epilogue { v11 = mul v9, v1 store %z[i, p], v11 } } }";
    let program = program(arrays, body);
    for machine in [Machine::CPU, Machine::PTX] {
        assert_snapshot!(after(&[rows::rows], &program, machine));
    }
}

#[test]
fn small_reductions_become_straight_code() {
    let arrays = "input 0 %x: f32[n] output 0 %y: f32[n]";
    let body = "parallel i < n { v1 = reduce r < 3 { v2 = affine i * 0 + r v0 = cast f32 v2 } with sum lanes v0 store %y[i], v1 }";
    assert_snapshot!(after(&[prepare::prepare], &program(arrays, body), Machine::CPU));
}

#[test]
fn a_product_that_nothing_reads_is_not_computed() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] scratch %t: f32";
    let body = "v2 = contract i < n, j < m over k < m {
        left { v0 = load %x[i, k] yield v0 } right { v1 = load %x[k, j] yield v1 } epilogue { store %t[], v2 } }";
    for machine in Machine::ALL {
        let scheduled = after(&[forward::forward, split::split], &program(arrays, body), machine);
        assert!(scheduled.parts.iter().all(|part| part.kernel.body.is_empty()), "{scheduled}");
    }
}

#[test]
fn checks_go_before_their_loop() {
    let arrays = "symbol m = dim 0 of input 1 input 0 %at: i64[n] input 1 %x: f32[m] output 0 %y: f32[n] site0 = axis 0 of \"x\" at 1..2";
    let body = "parallel i < n { v3 = load %at[i] v4 = check v3 < m at site0 v5 = load %x[v4] store %y[i], v5 }";
    let program = program(arrays, body);
    assert_snapshot!(after(&[checks::hoist], &program, Machine::CPU));
    assert_eq!(after(&[checks::hoist], &program, Machine::PTX), Scheduled::new(&program, Machine::PTX));
}

#[test]
fn a_sum_runs_in_chunks() {
    let sum = program("input 0 %x: f32[n] output 0 %y: f32", SUM);
    assert_snapshot!(after(&[split::split], &sum, Machine::CPU));
}

/// The last block joins them, and what reads the same array after that begins at its end.
#[test]
fn the_last_block_joins_chunks() {
    let arrays = "input 0 %x: f32[n] temp %s: f32 output 0 %y: f32[n]";
    let share = "} kernel @share { parallel i < n { v0 = load %x[i] v1 = load %s[] v2 = div v0, v1 store %y[i], v2 }";
    let share = program(arrays, &(SUM.replace("%y", "%s") + share));
    let passes: &[Pass] = &[split::split, strategies::strategies, descend::descend, join::join];
    assert_snapshot!(after(passes, &share, Machine::PTX));
}

/// On a GPU, where a chunk would occupy few threads. Rows are computed before, by loops of their
/// own.
#[test]
fn a_sum_by_blocks_runs_in_blocks() {
    let body = "v3 = reduce i < n { v0 = load %x[i, 0]
        v2 = reduce j < m { v1 = load %x[i, j] } with max free v1 } with sum blocks v0, max free v2
        store %y[], v3";
    let body = body.replace("v3 = reduce", "v3, v4 = reduce") + " store %z[], v4";
    let sum = program(&format!("{MATRIX} output 0 %y: f32 output 1 %z: f32"), &body);
    assert_snapshot!(after(&[split::split, join::join], &sum, Machine::PTX));
}

#[test]
fn loops_are_split_by_orders() {
    let body = "v3, v4, v5 = reduce i < n { v0 = load %x[i, 0] v1 = load %x[0, i] v2 = add v0, v1 }
        with sum lanes v0, max free v2, sum blocks v1
        v6 = add v3, v4 v7 = add v6, v5 store %y[], v7";
    let sums = program(&format!("{MATRIX} output 0 %y: f32"), body);
    assert_snapshot!(after(&[orders::orders], &sums, Machine::PTX));
}

/// A short loop of rows runs step by step where threads take an iteration together.
#[test]
fn short_loops_of_rows_go_step_by_step() {
    let body = "parallel i < n { parallel c < 3 { v1 = reduce j < m { v0 = load %x[j, c] } with sum blocks v0
        v2 = load %x[i, c] v3 = add v1, v2 store %y[i, c], v3 } }";
    let program = program(&format!("{MATRIX} output 0 %y: f32[n, 3]"), body);
    assert_snapshot!(after(&[split::split, strategies::strategies], &program, Machine::PTX));
}

#[test]
fn a_scan_runs_in_chunks() {
    let scan = program("input 0 %x: f32[n] output 0 %y: f32[n]", SCAN);
    assert_snapshot!("scan_hands_on", after(&[split::split], &scan, Machine::CPU));
    assert_snapshot!("scan_whole", after(&[split::split], &scan, Machine::OBJECT));
    assert_snapshot!("scan_relays", after(&[split::split], &scan, Machine::PTX));
}

/// Conditions on the distance to either end vanish from the interior; one on data stays.
#[test]
fn loops_are_split_at_their_borders() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[n, m]";
    let body = "parallel i < n, j < m {
        v0 = affine i v1 = const i64 0 v2 = eq v0, v1 v3 = affine j v4 = affine m - 2 v5 = ge v3, v4 v6 = or v2, v5
        v7 = load %x[i, j]
        v11 = if v6 { yield v7 } else { v8 = load %x[i - 1, j] v9 = load %x[i, j + 2] v10 = add v8, v9 yield v10 }
        store %y[i, j], v11 }";
    assert_snapshot!("borders", after(&[borders::borders], &program(arrays, body), Machine::CPU));
    let text = after(&[borders::borders], &program(arrays, body), Machine::PTX).to_string();
    assert_eq!(text.matches("parallel").count(), 1, "{text}");
    let body = "parallel i < n, j < m {
        v0 = load %x[i, j] v1 = const f32 0.0 v2 = gt v0, v1
        v4 = if v2 { v3 = load %x[i - 1, j] yield v3 } else { yield v1 }
        store %y[i, j], v4 }";
    let text = after(&[borders::borders], &program(arrays, body), Machine::CPU).to_string();
    assert_eq!(text.matches("parallel").count(), 1, "{text}");
}

/// `y[t] = x[t] + y[t - 1]` from the second element on.
const RECURRENCE: &str = "v0 = const i64 0 serial t < m {
    v1 = affine t v2 = eq v1, v0 v3 = load %x[i, t]
    v6 = if v2 { yield v3 } else { v4 = load %y[i, t - 1] v5 = add v3, v4 yield v5 }
    store %y[i, t], v6 }";

/// The first element is computed on its own, and loaded before the others. Where loops are not
/// split, the branch that is not taken there says that no element is loaded before the first.
#[test]
fn recurrences_keep_their_elements_in_values() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[n, m]";
    let program = program(arrays, &format!("parallel i < n {{ {RECURRENCE} }}"));
    assert_snapshot!("carried_behind_a_border", after(&[borders::borders, carry::carry], &program, Machine::CPU));
    assert_snapshot!("carried", after(&[borders::borders, carry::carry], &program, Machine::PTX));
    assert_snapshot!("jammed", after(&[borders::borders, carry::carry, jam::jam], &program, Machine::CPU));
}

/// Several rows together would load elements behind stores to the memory that they lie in.
#[test]
fn rows_that_store_in_place_do_not_run_together() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m]
        temp %t: f32[n] output 0 %y: f32[n, m] output 1 %z: f32[n]";
    let body = format!(
        "parallel i < n {{ v8 = load %x[i, 0] store %t[i], v8 }} }}
        kernel @after {{ parallel i < n {{ v8 = load %t[i] store %z[i], v8 {RECURRENCE} }}"
    );
    let text = format!("program @p {{ symbol n = dim 0 of input 0 {arrays} slot0 = %t, %z kernel @k {{ {body} }} }}");
    let program: Program = text.parse().expect("a program");
    let scheduled = after(&[borders::borders, carry::carry, jam::jam], &program, Machine::CPU);
    assert_eq!(scheduled.parts[1].kernel.body.len(), 1);
}

/// Rows that load elements of the row before stay behind it: one column, or two if an element is
/// one to the right. The end of the row before is not there in time.
#[test]
fn rows_run_behind_one_another() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output 0 %y: f32[n + 1, m + 1]";
    let rows = |load: &str| {
        let body = format!(
            "serial i < n {{ serial j < m {{
                v0 = load %y[{load}] v1 = load %y[i + 1, j] v2 = add v0, v1 store %y[i + 1, j + 1], v2 }} }}"
        );
        after(&[carry::carry, jam::jam], &program(arrays, &body), Machine::CPU)
    };
    assert_snapshot!("rows_behind", rows("i, j"));
    assert_snapshot!("rows_two_behind", rows("i, j + 2").to_string());
    for load in ["i, m", "i, m - j", "i, j + j", "i, j + 20", "n - i, j"] {
        let text = rows(load).to_string();
        assert!(text.contains("serial i < n"), "{load}: {text}");
    }
}

/// Elements from further back move on from value to value; those that only some iterations load
/// stay in memory, and so do those at places that data selects.
#[test]
fn only_elements_at_fixed_distances_are_kept() {
    let arrays = "input 0 %x: f32[n] output 0 %y: f32[n + 3]";
    let fibonacci = "serial t < n { v0 = load %y[t] v1 = load %y[t + 2] v2 = add v0, v1 store %y[t + 3], v2 }";
    assert_snapshot!("carried_from_further_back", after(&[carry::carry], &program(arrays, fibonacci), Machine::CPU));
    let stays = |body: &str| {
        let text = after(&[carry::carry], &program(arrays, body), Machine::CPU).to_string();
        assert!(!text.contains("while"), "{text}");
    };
    stays(
        "serial t < n { v0 = load %x[t] v1 = const f32 0.0 v2 = gt v0, v1
        v4 = if v2 { v3 = load %y[t] yield v3 } else { yield v0 } store %y[t + 1], v4 }",
    );
    stays("serial t < n { v0 = affine t v1 = load %y[t] store %y[v0], v1 }");
    stays("serial t < n { v1 = load %y[0] store %y[t + 1], v1 }");
    stays("serial t < n { v0 = load %x[t] store %y[t], v0 }");
}

#[test]
fn columns_go_in_tiles_with_rows_or_in_blocks_and_strips() {
    let both = program(&format!("{MATRIX} output 0 %y: f32[m] output 1 %z: f32[n]"), COLUMNS_AND_ROWS);
    let passes: [Pass; 3] = [tile::tile, split::split, columns::columns];
    assert_snapshot!("columns_in_tiles", after(&passes, &both, Machine::CPU));
    assert_snapshot!("columns_in_strips", after(&passes, &both, Machine::PTX));
}

#[test]
fn reductions_by_key_go_in_chunks() {
    let arrays = "symbol m = dim 1 of input 0 input 0 %k: i64[n, m] input 1 %x: f32[n, m] output 0 %y: f32[n, 5]";
    let rows = "parallel i < n { keyed 5 row 1 over j < m {
        v0 = load %k[i, j] v1 = const i64 5 v2 = lt v0, v1 v3 = const i64 0 v4 = ge v0, v3 v5 = and v2, v4
        if v5 { v6 = load %x[i, j] scatter %y[i, v0], sum v6 } } }";
    let rows = program(arrays, rows);
    assert_snapshot!("keyed_in_groups", after(&[split::split], &rows, Machine::CPU));
    assert_snapshot!("keyed_in_single_chunks", after(&[split::split], &rows, Machine::PTX));
    let arrays = "input 0 %k: i64[n] input 1 %x: f32[n] output 0 %y: f32[20000]";
    let many = "keyed 20000 row 0 over i < n {
        v0 = load %k[i] v1 = const i64 20000 v2 = lt v0, v1 v3 = const i64 0 v4 = ge v0, v3 v5 = and v2, v4
        if v5 { v6 = load %x[i] scatter %y[v0], sum v6 } }";
    assert_snapshot!("keyed_in_bins", after(&[split::split], &program(arrays, many), Machine::PTX));
    let arrays = "input 0 %k: i64[n, 9] output 0 %y: i64[n]";
    let image = "keyed n row 0 over i < n, j < 9 {
        v0 = load %k[i, j] v1 = affine n v2 = lt v0, v1 v3 = const i64 0 v4 = ge v0, v3 v5 = and v2, v4
        if v5 { v6 = const i64 1 scatter %y[v0], sum v6 } }";
    assert_snapshot!("keyed_over_two_indices", after(&[split::split], &program(arrays, image), Machine::CPU));
    let arrays = "symbol d = dim 1 of input 1 input 0 %k: i64[n] input 1 %x: f32[n, d]
        output 0 %y: i64[5] output 1 %z: f32[5, d]";
    let columns = "keyed 5 row 0 over i < n {
        v0 = load %k[i] v1 = const i64 5 v2 = lt v0, v1 v3 = const i64 0 v4 = ge v0, v3 v5 = and v2, v4
        if v5 { v6 = const i64 1 scatter %y[v0], sum v6
            parallel p < d { v7 = load %x[i, p] scatter %z[v0, p], sum v7 } } }";
    assert_snapshot!("keyed_by_column", after(&[split::split], &program(arrays, columns), Machine::PTX));
    let arrays = "input 0 %k: i64[n, 9] input 1 %w: f32[n]
        output 0 %y: i64[n, 5] scratch %s: i64[n, 5] scratch %t: i64[n, 5] output 1 %z: f32[n, 5]";
    let behind = "parallel i < n { v9 = load %w[i]
        keyed 5 row 1 over j < 9 {
            v0 = load %k[i, j] v1 = const i64 5 v2 = lt v0, v1 v3 = const i64 0 v4 = ge v0, v3 v5 = and v2, v4
            if v5 { scatter %y[i, v0], sum v0 scatter %s[i, v0], max v0 scatter %t[i, v0], min v0 } }
        parallel c < 5 {
            v6 = load %y[i, c] v7 = load %s[i, c] v8 = load %t[i, 4 - c]
            v10 = add v6, v7 v11 = add v10, v8 v12 = cast f32 v11 v13 = mul v12, v9 store %z[i, c], v13 } }";
    assert_snapshot!("behind_keyed", after(&[split::split], &program(arrays, behind), Machine::PTX));
}

#[test]
fn sorts() {
    let rows = format!("{MATRIX} output %y: f32[n, m]");
    let body = "parallel i < n { sort j < m {
        v1 = load %x[i, j] v2 = mul v1, v1 v3 = place v2 store %y[i, v3], v2 } }";
    assert_snapshot!("sort_of_rows", after(&[split::split], &program(&rows, body), Machine::CPU));

    let short = "input 0 %x: i64[n, 9] output %y: i64[n, 9]";
    let body = "parallel i < n { sort j < 9 {
        v1 = load %x[i, j] v2 = affine j v3 = place v1 store %y[i, v3], v2 } }";
    assert_snapshot!("sort_of_short_rows", after(&[split::split], &program(short, body), Machine::PTX));

    let long = "input 0 %x: u32[n, 512] output %y: i64[512]";
    let body = "sort j < 512 { v1 = load %x[0, j] v2 = affine j v3 = place v1 store %y[v3], v2 }";
    assert_snapshot!("sort_of_numbers", after(&[split::split], &program(long, body), Machine::CPU));
}

#[test]
fn a_scalar_goes_from_part_to_part_through_memory() {
    let arrays = "input 0 %x: f32[n] output 0 %y: f32[n]";
    let body = "v1 = reduce a < n { v2 = load %x[a] } with max free v2
        parallel i < n { v3 = load %x[i] v4 = sub v3, v1 store %y[i], v4 }";
    assert_snapshot!(after(&[split::split], &program(arrays, body), Machine::CPU));
}

#[test]
fn a_transposition_loads_across_memory() {
    let found = |body: &str| {
        let program = program(&format!("{MATRIX} output 0 %y: f32[m, n]"), body);
        after(&[split::split, transpose::transpose], &program, Machine::CPU)
    };
    assert_snapshot!(found("parallel i < m, j < n { v0 = load %x[j, i] store %y[i, j], v0 }"));
    let along = found("parallel j < n, i < m { v0 = load %x[j, i] store %y[i, j], v0 }");
    assert_eq!(along.parts[0].run, Run::Ranges);
}

/// The lines behind the program: how each part runs.
fn how(scheduled: &Scheduled) -> String {
    let text = scheduled.to_string();
    text.find("part @").map_or_else(String::new, |at| text[at..].to_owned())
}

#[test]
fn strategies_lay_loops_out() {
    let arrays =
        format!("{MATRIX} input 1 %k: i64[n] scratch %t: f32[m] output 0 %y: f32[m, n] output 1 %z: f32[n, m]");
    let laid_out = |body: &str| {
        let passes: [Pass; 3] = [split::split, transpose::transpose, strategies::strategies];
        how(&after(&passes, &program(&arrays, body), Machine::PTX))
    };
    let transposed = "parallel i < m, j < n { v0 = load %x[j, i] store %y[i, j], v0 }";
    let stencil = "parallel i < n, j < m { v0 = load %x[i, j] v1 = load %x[n - 1 - i, j] v3 = load %x[i, m - 1 - j]
        v2 = add v0, v1 v4 = add v2, v3 store %z[i, j], v4 }";
    let overlapping = "parallel i < n - 1, j < m { v0 = load %x[i, j] v1 = load %x[i + 1, j] v2 = add v0, v1
        store %z[i, j], v2 }";
    let along = "parallel i < n, j < m { v0 = load %x[i, j] store %z[i, j], v0 }";
    let quotient = "parallel i < n, j < m { v0 = load %x[i, j] v1 = div v0, v0 store %z[i, j], v1 }";
    let gathered = "parallel i < m, j < n { v1 = load %k[j] v0 = load %x[v1, i] store %y[i, m - 1], v0 }";
    let scratch = "parallel i < n { parallel a < 3 { v0 = load %x[i, a] store %t[a], v0 }
        parallel b < 3 { v1 = load %t[b] store %z[i, b], v1 } }";
    let by_rows = "parallel i < n { parallel a < m { v0 = load %x[i, a] store %z[i, a], v0 } }";
    let all = [transposed, stencil, overlapping, along, quotient, gathered, scratch, by_rows];
    assert_snapshot!(all.map(laid_out).join("\n"));
}

#[test]
fn strategies_lay_out_iterations_with_loops() {
    let laid_out = |arrays: &str, body: &str| {
        let passes: [Pass; 3] = [split::split, columns::columns, strategies::strategies];
        how(&after(&passes, &program(arrays, body), Machine::PTX))
    };
    let softmax = |m: &str| {
        let symbol = if m == "m" { "symbol m = dim 1 of input 0" } else { "" };
        laid_out(
            &format!("{symbol} input 0 %x: f32[n, {m}] scratch %e: f32[{m}] output 0 %y: f32[n, {m}]"),
            &format!(
                "parallel i < n {{ v1 = reduce a < {m} {{ v0 = load %x[i, a] }} with max free v0
                v4 = reduce b < {m} {{ v2 = load %x[i, b] v3 = sub v2, v1 store %e[b], v3 }} with sum lanes v3
                parallel c < {m} {{ v5 = load %e[c] v6 = div v5, v4 store %y[i, c], v6 }} }}"
            ),
        )
    };
    let sums = "parallel i < n { v1 = reduce a < m { v0 = load %x[i, a] } with sum lanes v0 store %y[i], v1 }";
    let blocks = "parallel i < n { v1 = reduce a < m { v0 = load %x[i, a] } with sum blocks v0 store %y[i], v1 }";
    let columns = "parallel j < m { v1 = reduce i < n { v0 = load %x[i, j] } with sum blocks v0 store %y[j], v1 }";
    let keyed = "parallel i < n { serial a < m { v0 = load %k[i, a] v1 = const f32 1.0 scatter %y[i, v0], sum v1 } }";
    let rows = format!("{MATRIX} output 0 %y: f32[n]");
    let all = [
        softmax("m"),
        softmax("5000"),
        laid_out(&rows, sums),
        laid_out(&rows, blocks),
        laid_out(&format!("{MATRIX} output 0 %y: f32[m]"), columns),
        laid_out("symbol m = dim 1 of input 0 input 0 %k: i64[n, m] output 0 %y: f32[n, 5]", keyed),
    ];
    assert_snapshot!(all.join("\n"));
}

/// Layouts that do not run each iteration once, on units that the target has, are no schedules.
#[test]
fn layouts_run_each_iteration_once() {
    let arrays = format!("{MATRIX} output 0 %y: f32[m, n]");
    let body = "parallel i < m, j < n { v0 = load %x[j, i] store %y[i, j], v0 }";
    let passes: [Pass; 3] = [split::split, transpose::transpose, strategies::strategies];
    let text = after(&passes, &program(&arrays, body), Machine::PTX).to_string();
    let broken = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let scheduled: Scheduled = text.replacen(from, to, 1).parse().expect("text that reads");
        ir::sched::verify(&scheduled).expect_err("a broken rule").message
    };
    let all = "    axis i: block 4, memory 16, grid\n";
    assert_snapshot!(
        [
            broken(all, ""),
            broken(all, "axis i, j: block 4, memory 16, grid"),
            broken(all, "axis j, i: block 4, memory 16, grid"),
            broken(all, "axis i: block 4, memory 16"),
            broken(all, "axis i: block 4, grid, memory 16"),
            broken(all, "axis i: block 4, vector 16, grid"),
            broken(all, "axis i: block 4, memory 8, grid"),
            broken(all, "axis i: block 32, memory 2, grid"),
            broken("memory 16, grid\n    axis j", "memory 16, cluster\n    axis j"),
            broken("stage 0", "stage 1"),
            broken("schedule for ptx", "schedule for cpu"),
        ]
        .join("\n")
    );
}

/// Arrays for loops in several forms.
const ARRAYS: &str = "symbol m = dim 1 of input 0 input 0 %x: f32[n, m] input 1 %at: i64[n] input 2 %h: f16[n]
    output 0 %y: f32[n, m] output 1 %z: f32[n] output 2 %k: f16[n] scratch %s: f32[m]
    site0 = axis 0 of \"x\" at 1..2";

/// The lines that say in which form the loops of a kernel run.
fn forms_of(body: &str) -> String {
    let passes: [Pass; 2] = [split::split, forms::forms];
    let text = after(&passes, &program(ARRAYS, body), Machine::CPU).to_string();
    text.lines().filter(|line| line.starts_with("  loop")).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Each loop that cannot run in vectors, with what keeps it from that.
#[test]
fn loops_run_in_vectors_unless_there_is_an_obstacle() {
    let sum = |dims: &str, order: &str| {
        format!("parallel i < n {{ v1 = reduce {dims} {{ v0 = load %x[i, a] }} with sum {order} v0 store %z[i], v1 }}")
    };
    let all = [
        "parallel i < n, j < m { v0 = load %x[i, j] v1 = mul v0, v0 store %y[i, j], v1 }",
        "parallel i < n { v0 = load %at[i] v1 = load %x[i, v0] store %z[i], v1 }",
        "parallel i < n { v0 = load %at[i] v1 = const i64 0 v2 = lt v0, v1
            v4 = if v2 { v3 = load %x[i, 0] yield v3 } else { v5 = const f32 0.0 yield v5 } store %z[i], v4 }",
        "serial t < 2 { parallel i < n { v0 = affine t v1 = cast f32 v0 store %y[0, 0], v1 } }",
        "parallel i < n { v0 = const f32 1.0 v1 = load %at[i] scatter %z[v1], sum v0 }",
        "parallel i < n { serial j < i { v0 = load %x[i, j] store %y[i, j], v0 } }",
        &sum("a < m", "lanes"),
        "parallel i < n { scan j < m { v0 = load %x[i, j] v1 = prefix sum v0 store %y[i, j], v1 } }",
        "parallel i < n { v0 = load %at[i] v1 = check v0 < m at site0 v2 = load %x[i, v1] store %z[i], v2 }",
        "parallel i < n { v0 = load %z[0] store %z[i], v0 }",
        "parallel i < n { parallel j < m { v0 = load %x[i, j] store %s[j], v0 }
            v1 = load %at[i] v2 = load %s[v1] store %z[i], v2 }",
        &sum("a < m", "free").replace("sum free", "max free"),
        &sum("a < m", "free").replace("sum free", "max free").replace("[i, a]", "[a, i]"),
        "parallel i < n { v0 = load %h[i] v3 = while t < 4 with v1 = v0 do {
            v4 = cast f32 v1 v5 = mul v4, v4 v2 = cast f16 v5 yield v2 } store %k[i], v3 }",
    ];
    assert_snapshot!(all.map(forms_of).join("\n"));
}

/// Where a branch depends on a comparison of the index, each side of it runs in a form of its own.
#[test]
fn loops_are_split_where_a_comparison_changes() {
    let beside = "parallel i < n, j < m { v0 = affine j v1 = affine i v2 = lt v0, v1
        v5 = if v2 { v3 = load %x[i, j] yield v3 } else { v4 = load %x[j, i] yield v4 } store %y[i, j], v5 }";
    let nested = "parallel i < n, j < m { v0 = affine j v1 = const i64 3 v2 = lt v0, v1 v6 = affine i v7 = eq v6, v1
        v5 = if v2 { v3 = load %x[i, j] yield v3 } else {
            v8 = if v7 { v4 = load %x[j, i] yield v4 } else { v9 = const f32 0.0 yield v9 } yield v8 }
        store %y[i, j], v5 }";
    assert_snapshot!([beside, nested].map(forms_of).join("\n"));
}

#[test]
fn forms_that_loops_cannot_have_are_no_schedules() {
    let body = "parallel i < n, j < m { v0 = affine j v1 = affine i v2 = lt v0, v1 v6 = add v0, v1
        v5 = if v2 { v3 = load %x[i, j] yield v3 } else { v4 = load %x[j, i] yield v4 } store %y[i, j], v5 }";
    let passes: [Pass; 2] = [split::split, forms::forms];
    let text = after(&passes, &program(ARRAYS, body), Machine::CPU).to_string();
    let form = "loop j: split v2 { vectors } else { vectors }";
    assert!(text.contains(form), "{text}");
    for other in [
        "loop j: vectors",
        "loop i: split v2 { vectors } else { vectors }",
        "loop j: split v6 { vectors } else { vectors }",
        "loop j: single (branch) { loop i: vectors }",
        "loop j: single (branch) loop i: vectors",
    ] {
        let scheduled: Scheduled = text.replace(form, other).parse().expect("text that reads");
        let error = ir::sched::verify(&scheduled).expect_err("a broken rule");
        assert_eq!(error.message, "has loops in a form that they cannot have", "{other}");
    }
    let single: Scheduled = text.replace(form, "loop j: single (chosen)").parse().expect("text that reads");
    assert_eq!(ir::sched::verify(&single), Ok(()));
}

/// A loop over a stencil runs in time tiles, whose stages lag behind each other by its reach; one
/// that reads an element of every row, or ends by data, does not.
#[test]
fn stencils_over_time_go_in_tiles() {
    let found = |kernels: &str, exit: &str| {
        let text = format!(
            "program @p {{ symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 symbol t = value of input 1
               input %x: f32[n, m] input %t: i64 temp %a: f32[n, m] temp %b: f32[n, m] temp %c: f32[n, m]
               constant %go: bool = [true] output %y: f32[n, m]
               repeat t with %a = %x then %b {{ {exit} {kernels} }}
               kernel @y {{ parallel i < n, j < m {{ v0 = load %a[i, j] store %y[i, j], v0 }} }} }}"
        );
        let program: Program = text.parse().expect("a program");
        let scheduled = after(&[borders::borders, split::split], &program, Machine::CPU);
        TimeTiles::of(&scheduled, scheduled.program.repeats()[0])
    };
    let stencil = |from: &str, to: &str, least: i64, at: &str| {
        format!(
            "kernel @{to} {{ parallel i < n, j < m {{ v0 = affine i v1 = const i64 {least} v2 = ge v0, v1
               v5 = if v2 {{ v3 = load %{from}[{at}] yield v3 }} else {{ v4 = load %{from}[i, j] yield v4 }}
               store %{to}[i, j], v5 }} }} "
        )
    };
    let one = found(&stencil("a", "b", 1, "i - 1, j"), "").expect("tiles");
    assert_eq!((one.reach, one.stages.len()), (1, 1));
    let Rows::Each { first, count, .. } = &one.stages[0][1].rows else { panic!("{one:?}") };
    assert_eq!(
        (first.as_constant(), one.stages[0][0].rows == Rows::Once { first: Size::constant(0), width: 1 }),
        (Some(1), true)
    );
    assert!(count.as_constant().is_none());
    // Two rows at the border may be that far from the row after them.
    let two = found(&(stencil("a", "c", 2, "i - 2, j") + &stencil("c", "b", 0, "i, j")), "").expect("tiles");
    assert_eq!((two.reach, two.stages.len()), (3, 2));
    assert_eq!(found(&stencil("a", "b", 1, "0, j"), ""), None);
    assert_eq!(found(&stencil("a", "b", 1, "i - 1, j"), "exit unless %go"), None);
}

#[test]
fn without_fuel_each_kernel_runs_plainly() {
    let both = program(&format!("{MATRIX} output 0 %y: f32[m] output 1 %z: f32[n]"), COLUMNS_AND_ROWS);
    for machine in Machine::ALL {
        let scheduled = schedule_with(&both, machine, &mut Choice::new(Policy::Model, Some(0))).expect("a schedule");
        assert_eq!(scheduled.added().count(), 0);
        assert!(scheduled.parts.iter().all(|part| part.run == Run::Ranges), "{scheduled}");
    }
}

#[test]
fn loops_run_across_the_rows_around_them() {
    let arrays = "symbol d = dim 1 of input 0 symbol k = dim 0 of input 1
        input 0 %x: f32[n, d] input 1 %c: f32[k, d] output 0 %y: f32[n]";
    let distances = |reducer: &str| {
        format!(
            "parallel i < n {{ v0 = reduce j < k {{ v1 = reduce p < d {{
                v2 = load %x[i, p] v3 = load %c[j, p] v4 = sub v2, v3 v5 = mul v4, v4
            }} with sum lanes v5 }} with {reducer} v1 store %y[i], v0 }}"
        )
    };
    assert_snapshot!(after(&[across::across], &program(arrays, &distances("min free")), Machine::CPU));
    // Neither where the sums of a row have an order along it, nor on targets with a thread for each.
    for (reducer, machine) in [("sum lanes", Machine::CPU), ("min free", Machine::PTX)] {
        let program = program(arrays, &distances(reducer));
        assert_eq!(after(&[across::across], &program, machine), Scheduled::new(&program, machine));
    }
    // Nor where each width copies a long function.
    let steps: String = (1..1200).map(|n| format!("v{n} = add v{}, v0 ", n - 1)).collect();
    let long = format!("{arrays} function @long = exp(v0: f32) {{ {steps} yield v1199 }}");
    let called = distances("min free").replace("v4 = sub v2, v3", "v6 = call @long(v2) v4 = sub v6, v3");
    let with_long = program(&long, &called);
    assert_eq!(after(&[across::across], &with_long, Machine::CPU), Scheduled::new(&with_long, Machine::CPU));
    // Neither where the elements of a row are side by side.
    let arrays = "symbol d = dim 1 of input 0 symbol k = dim 1 of input 1
        input 0 %x: f32[n, d] input 1 %c: f32[d, k] output 0 %y: f32[n]";
    let program = program(arrays, &distances("min free").replace("%c[j, p]", "%c[p, j]"));
    assert_eq!(after(&[across::across], &program, Machine::CPU), Scheduled::new(&program, Machine::CPU));
}

#[test]
fn pairs_of_rows_run_across_those_of_the_second() {
    let arrays = "symbol d = dim 1 of input 0 symbol k = dim 0 of input 1
        input 0 %x: f32[n, d] input 1 %c: f32[k, d] output 0 %y: f32[n, k]";
    let pairs = |second: &str| {
        format!(
            "parallel i < n, j < k {{
                v0 = load %x[i, 0] v1 = load %c[{second}] v2 = sub v0, v1 store %y[i, j], v2
            }}"
        )
    };
    assert_snapshot!(after(&[across::across], &program(arrays, &pairs("j, 0")), Machine::CPU));
    // In place of elements that it loads, there is one loop.
    let shared = arrays.replace("output 0", "temp %t: f32[n, k] output 0") + " slot0 = %t, %y";
    let first = "parallel a < n, b < k { v3 = const f32 1.0 store %t[a, b], v3 }";
    let second = pairs("j, 0").replace("v2 = sub v0, v1", "v4 = load %t[i, j] v5 = sub v0, v1 v2 = add v5, v4");
    let in_place = program(&shared, &format!("{first} }} kernel @l {{ {second}"));
    assert_eq!(after(&[across::across], &in_place, Machine::CPU), Scheduled::new(&in_place, Machine::CPU));
    // The elements of the second are side by side.
    let program = program(arrays, &pairs("0, j"));
    assert_eq!(after(&[across::across], &program, Machine::CPU), Scheduled::new(&program, Machine::CPU));
}
