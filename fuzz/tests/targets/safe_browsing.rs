//! Messages of the Safe Browsing server.

use terse_core::{Clock, Target};
use terse_safety::safe_browsing::{HashList, SafeBrowsing, read_updates};

use crate::input::fuzz;

#[test]
fn safe_browsing() {
    let target = Target::from_stored("https://example.com/a/b?c=d".into());
    fuzz("safe_browsing", |bytes| {
        let known = SafeBrowsing::new(Clock::default());
        let updates = read_updates(bytes);
        if let Ok(updates) = &updates {
            let mut lists: Vec<HashList> = Vec::new();
            for update in updates {
                let list = HashList::new(update.name());
                if let Ok(updated) = list.updated(update) {
                    let (stored, sum) = (updated.to_bytes(), updated.checksum());
                    let version = updated.version().to_vec();
                    let read = HashList::from_bytes(updated.name(), version, &stored, sum);
                    assert!(read.is_some_and(|read| read.len() == updated.len()));
                    lists.push(updated);
                }
            }
            known.replace(&lists, Clock::default().now());
            known.status(&target);
        }
        if let Ok(summary) = known.store_response(&[0, 1, u32::MAX], bytes) {
            assert!(summary.threats <= bytes.len(), "each hash takes 32 bytes of the message");
        }
        updates.is_ok_and(|updates| !updates.is_empty())
    });
}
