//! Splits: assigns visitors to branches.

use super::rule::Destination;
use super::visit_context::SplitKey;
use crate::target::Target;

impl Destination {
    /// The target for a visitor, and the index of its branch. The branches divide an interval in
    /// proportion to their weights, and the split key is a point in it. When a weight changes, only
    /// visitors whose point crosses a border move.
    pub(super) fn pick(&self, SplitKey(split_key): SplitKey) -> (Option<usize>, &Target) {
        let branches = match self {
            Self::To(target) => return (None, target),
            Self::Split(branches) => branches,
        };
        let total: u64 = branches.iter().map(|branch| u64::from(branch.weight)).sum();
        let mut point = (u128::from(split_key) * u128::from(total)) >> 64;
        for (index, branch) in branches.iter().enumerate() {
            match point.checked_sub(u128::from(branch.weight)) {
                Some(rest) => point = rest,
                None => return (Some(index), &branch.target),
            }
        }
        // Unreachable: the point is below the total weight.
        let last = branches.len() - 1;
        (Some(last), &branches[last].target)
    }
}
