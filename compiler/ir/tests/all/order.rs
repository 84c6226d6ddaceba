//! Orders as trees, distributions, and the steps of the one over the other: their text.

use ir::Order;
use ir::order::{Distribution, Tree};

/// The tree of each order.
const TREES: &[(Order, &str, usize)] = &[
    (Order::Free, "tree(any)", 1),
    (Order::Lanes, "tree(lanes 128 x 32, halves 128, pairs)", 4096),
    (Order::Blocks, "tree(serial 256, pairs)", 256),
    (Order::Scan, "tree(doubling 16, serial 256, serial)", 4096),
];

#[test]
fn orders_have_trees() {
    for (order, text, chunk) in TREES {
        assert_eq!(order.tree().to_string(), *text);
        assert_eq!(text.parse().as_ref(), Ok(order.tree()));
        assert_eq!(order.tree().chunk(), *chunk, "{text}");
    }
}

#[test]
fn other_text_is_no_tree() {
    for (text, error) in [
        ("lanes", "a tree is written `tree(..)`"),
        ("tree()", "a tree ends in `any`, `pairs` or `serial`"),
        ("tree(serial 4)", "a tree ends in `any`, `pairs` or `serial`"),
        ("tree(serial, pairs)", "`serial` is no level of a tree"),
        ("tree(serial 0, pairs)", "`0` is no number from 1 to 1048576"),
        ("tree(halves 3, pairs)", "`3` is no power of two"),
        ("tree(lanes 128 x 32, pairs)", "a chunk has 128 results"),
        ("tree(lanes 8 x 2, halves 4, any)", "`halves 4` takes groups of 8 values apart"),
        ("tree(serial 1048576, serial 1048576, serial 1048576, serial 1048576, any)", "a chunk has too many elements"),
    ] {
        let read: Result<Tree, _> = text.parse();
        assert_eq!(read.map_err(|e| e.to_string()), Err(error.to_owned()), "{text}");
    }
    for (text, error) in [
        ("warp", "`warp` is no span of places"),
        ("thread 4", "`thread 4` is no span of places"),
        ("warp 3", "`3` is no power of two"),
        ("memory 1048576, warp 2", "more than 1048576 places"),
    ] {
        let read: Result<Distribution, _> = text.parse();
        assert_eq!(read.map_err(|e| e.to_string()), Err(error.to_owned()), "{text}");
    }
}

/// The steps of an order's tree, one a line, with the first pair of places that each merges.
fn steps(order: Order, over: &str) -> String {
    let distribution: Distribution = over.parse().unwrap();
    assert_eq!(distribution.to_string(), over);
    let mut text = String::new();
    for step in order.tree().steps(&distribution) {
        let pairs: Vec<_> = step.pairs().collect();
        text += &format!("{step}: {} of {:?}\n", pairs.len(), pairs[0]);
    }
    text
}

/// The lanes of a chunk on a warp with four registers each.
#[test]
fn lanes_over_a_warp() {
    let expected = "\
halves register 2, 64 left: 2 of (0, 2)
halves register 1, 32 left: 1 of (0, 1)
halves warp 16, 16 left: 16 of (0, 16)
halves warp 8, 8 left: 8 of (0, 8)
halves warp 4, 4 left: 4 of (0, 4)
halves warp 2, 2 left: 2 of (0, 2)
halves warp 1, 1 left: 1 of (0, 1)
";
    assert_eq!(steps(Order::Lanes, "warp 32, register 4"), expected);
}

/// The lanes of four chunks: their results are merged after them, by the upper bits of the
/// registers' numbers.
#[test]
fn lanes_of_several_chunks() {
    let expected = "\
halves register 2, 64 left: 8 of (0, 2)
halves register 1, 32 left: 4 of (0, 1)
halves vector 16, 16 left: 16 of (0, 16)
halves vector 8, 8 left: 8 of (0, 8)
halves vector 4, 4 left: 4 of (0, 4)
halves vector 2, 2 left: 2 of (0, 2)
halves vector 1, 1 left: 1 of (0, 1)
pairs register 4, 2 left: 2 of (0, 4)
pairs register 8, 1 left: 1 of (0, 8)
";
    assert_eq!(steps(Order::Lanes, "vector 32, register 16"), expected);
}

#[test]
fn the_other_orders() {
    let expected = "pairs warp 1, 4 left: 2 of (0, 1)\npairs warp 2, 2 left: 1 of (0, 2)\n\
                    pairs block 1, 1 left: 1 of (0, 1)\n";
    assert_eq!(steps(Order::Blocks, "warp 4, block 2"), expected);
    let expected = "halves block 1, 4 left: 1 of (0, 1)\nhalves warp 2, 2 left: 2 of (0, 2)\n\
                    halves warp 1, 1 left: 1 of (0, 1)\n";
    assert_eq!(steps(Order::Free, "warp 4, block 2"), expected);
    let expected = "doubling vector 1, 16 left: 7 of (6, 7)\ndoubling vector 2, 16 left: 6 of (5, 7)\n\
                    doubling vector 4, 16 left: 4 of (3, 7)\ndoubling register 1, 16 left: 2 of (0, 1)\n";
    assert_eq!(steps(Order::Scan, "vector 8, register 4"), expected);
}
