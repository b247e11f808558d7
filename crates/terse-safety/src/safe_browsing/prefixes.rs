//! All lists merged for lookups.

/// Sorted prefixes with a table of where each pair of first bytes starts.
#[derive(Debug)]
pub(crate) struct Prefixes {
    sorted: Vec<u32>,
    begins: Vec<u32>,
}

impl Prefixes {
    pub(crate) fn of<'a>(lists: impl Iterator<Item = &'a [u32]>) -> Self {
        let mut sorted: Vec<u32> = lists.flatten().copied().collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.shrink_to_fit();
        let mut begins = vec![0; (1 << 16) + 1];
        for prefix in &sorted {
            begins[(prefix >> 16) as usize + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        Self { sorted, begins }
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn contains(&self, prefix: u32) -> bool {
        let at = (prefix >> 16) as usize;
        self.sorted[self.begins[at] as usize..self.begins[at + 1] as usize]
            .binary_search(&prefix)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_every_list_are_found() {
        let lists: [&[u32]; 3] = [&[0, 1, 0xffff, 0x1_0000], &[1, 0x8000_0000, u32::MAX], &[]];
        let prefixes = Prefixes::of(lists.into_iter());
        assert_eq!(prefixes.len(), 6);
        for prefix in [0, 1, 0xffff, 0x1_0000, 0x8000_0000, u32::MAX] {
            assert!(prefixes.contains(prefix));
            assert!(!prefixes.contains(prefix ^ 0x40_0000));
        }
        assert!(!Prefixes::of(std::iter::empty()).contains(0));
    }
}
