//! Inputs: a seed from the tree, with changes.

use std::panic::RefUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bolero::TypeGenerator;

/// A seed and what is changed in it.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    seed: u8,
    /// Few: an input that is changed in many places is refused at the first.
    #[generator(bolero::produce_with::<Vec<Change>>().len(0..=5usize))]
    changes: Vec<Change>,
}

#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    Set {
        at: u16,
        byte: u8,
    },
    /// A byte that parsers treat in a special way.
    Special {
        at: u16,
        which: u8,
    },
    Insert {
        at: u16,
        bytes: Vec<u8>,
    },
    Remove {
        at: u16,
        count: u8,
    },
    Repeat {
        at: u16,
        count: u8,
        times: u8,
    },
    /// Continues with the rest of another seed.
    Splice {
        at: u16,
        seed: u8,
        from: u16,
    },
    Cut {
        at: u16,
    },
}

const SPECIAL: &[u8] = b"\0\r\n\t :/?#%&=+\"'\\[]{}<>,;@.-_\x7f\x80\xff\xc3\xe2";
/// Longer inputs cost time and show nothing new.
const MAX: usize = 64 * 1024;

impl Input {
    fn bytes(&self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let seed = |number: u8| &seeds[usize::from(number) % seeds.len()];
        let mut bytes = seed(self.seed).clone();
        for change in &self.changes {
            let place = |at: u16| usize::from(at) % (bytes.len() + 1);
            match change {
                Change::Set { at, byte } => {
                    let at = place(*at);
                    bytes.get_mut(at).into_iter().for_each(|old| *old = *byte);
                }
                Change::Special { at, which } => {
                    let (at, byte) = (place(*at), SPECIAL[usize::from(*which) % SPECIAL.len()]);
                    bytes.get_mut(at).into_iter().for_each(|old| *old = byte);
                }
                Change::Insert { at, bytes: new } => {
                    let at = place(*at);
                    bytes.splice(at..at, new.iter().copied());
                }
                Change::Remove { at, count } => {
                    let at = place(*at);
                    let end = (at + usize::from(*count)).min(bytes.len());
                    bytes.drain(at..end);
                }
                Change::Repeat { at, count, times } => {
                    let at = place(*at);
                    let end = (at + usize::from(*count)).min(bytes.len());
                    let part = bytes[at..end].repeat(usize::from(*times));
                    bytes.splice(at..at, part);
                }
                Change::Splice { at, seed: other, from } => {
                    let (at, other) = (place(*at), seed(*other));
                    bytes.truncate(at);
                    bytes.extend(&other[usize::from(*from) % (other.len() + 1)..]);
                }
                Change::Cut { at } => {
                    let at = place(*at);
                    bytes.truncate(at);
                }
            }
            bytes.truncate(MAX);
        }
        bytes
    }
}

/// The seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no seeds", folder.display());
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// How long each target runs.
fn time() -> Duration {
    let seconds = std::env::var("TERSE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

/// Checks all seeds as they are, and then changed ones until the time is over. `check` returns
/// whether the input was accepted and looked at; at least one seed must be, or the target checks
/// nothing.
pub(crate) fn fuzz(target: &'static str, check: impl Fn(&[u8]) -> bool + RefUnwindSafe) {
    let seeds = seeds(target);
    let accepted = seeds.iter().filter(|seed| check(seed)).count();
    assert!(accepted > 0, "no seed of {target} is accepted");
    let (inputs, accepted) = (AtomicU64::new(0), AtomicU64::new(0));
    bolero::check!(name = target)
        .with_type::<Input>()
        .with_iterations(usize::MAX)
        .with_test_time(time())
        .for_each(|input: &Input| {
            inputs.fetch_add(1, Ordering::Relaxed);
            accepted.fetch_add(u64::from(check(&input.bytes(&seeds))), Ordering::Relaxed);
        });
    println!("{target}: {inputs:?} inputs, {accepted:?} accepted");
}
