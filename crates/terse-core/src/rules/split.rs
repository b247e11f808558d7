//! Splits: which visitor takes which branch.

use super::facts::SplitKey;
use super::rule::Way;
use crate::target::Target;

impl Way {
    /// The target for a visitor, and which branch that is. The branches lie side by side on a line,
    /// each as long as its weight, and a visitor is a place on it: if a weight changes, only those
    /// move whose place the border passed.
    pub(super) fn pick(&self, SplitKey(who): SplitKey) -> (Option<usize>, &Target) {
        let branches = match self {
            Self::To(target) => return (None, target),
            Self::Split(branches) => branches,
        };
        let whole: u64 = branches.iter().map(|branch| u64::from(branch.weight)).sum();
        let mut place = (u128::from(who) * u128::from(whole)) >> 64;
        for (index, branch) in branches.iter().enumerate() {
            match place.checked_sub(u128::from(branch.weight)) {
                Some(rest) => place = rest,
                None => return (Some(index), &branch.target),
            }
        }
        // The place is below the whole, so that one of them was it.
        let last = branches.len() - 1;
        (Some(last), &branches[last].target)
    }
}
