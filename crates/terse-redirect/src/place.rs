//! Places of which there is a bounded number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A place; given back when dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Place {
    /// `None` if all are taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(taken));
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place {
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
        let mut held: Vec<_> = (0..9).map(|_| Place::take(&taken, 9).expect("a place")).collect();
        assert!(Place::take(&taken, 9).is_none());
        held.pop();
        assert!(Place::take(&taken, 9).is_some());
        drop(held);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
