//! Joins branches that follow one another and have the same condition.

use crate::nest::{Block, Statement};

/// Makes one of `if`s that follow one another, have the same condition and give no values. Returns
/// the number of `if`s that have gone.
pub fn join_branches(block: &mut Block) -> usize {
    let mut count = 0;
    for statement in std::mem::take(block) {
        match (block.last_mut(), statement) {
            (
                Some(Statement::If { condition, then, otherwise, results }),
                Statement::If { condition: same, then: more, otherwise: others, results: none },
            ) if *condition == same && results.is_empty() && none.is_empty() => {
                then.extend(more);
                otherwise.extend(others);
                count += 1;
            }
            (_, statement) => block.push(statement),
        }
    }
    for statement in block {
        count += statement.blocks_mut().map(join_branches).sum::<usize>();
    }
    count
}

#[cfg(test)]
mod tests {
    use crate::nest::{KernelId, Program};

    #[test]
    fn branches_of_one_condition_become_one() {
        let text = |body: &str| {
            format!(
                "program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n] temp %t: f32[n]
                kernel @k {{ parallel i < n {{ v0 = load %x[i] v1 = lt v0, v0 v2 = gt v0, v0 {body} }} }} }}"
            )
        };
        let mut program: Program =
            text("if v1 { store %y[i], v0 } if v1 { store %t[i], v0 } if v2 { } if v1 { }").parse().expect("a program");
        let kernel = &mut program.kernels[KernelId::from_u32(0)];
        assert_eq!(super::join_branches(&mut kernel.body), 1);
        let joined = text("if v1 { store %y[i], v0 store %t[i], v0 } if v2 { } if v1 { }").parse();
        assert_eq!(Ok(program), joined);
    }
}
