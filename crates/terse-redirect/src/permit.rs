//! Permits of which there is a bounded number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A permit; dropping it gives it back.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// `None` if all are taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let permit = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let taken = Arc::new(AtomicUsize::new(0));
        let mut held: Vec<_> = (0..9).map(|_| Permit::take(&taken, 9).expect("a permit")).collect();
        assert!(Permit::take(&taken, 9).is_none());
        held.pop();
        assert!(Permit::take(&taken, 9).is_some());
        drop(held);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
