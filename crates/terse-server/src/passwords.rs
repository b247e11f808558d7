//! Hashes passwords with Argon2id. Only the hashes are stored.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use async_trait::async_trait;
use terse_core::{MAX_PASSWORD_LEN, PasswordError, PasswordHasher};
use tokio::sync::Semaphore;

/// 19 MiB and two passes, as OWASP recommends for Argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// The largest number of calls that wait for a permit.
const WAITING: usize = 64;
/// The longest that a call waits for a permit.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Hashes and verifies passwords, a few at a time: each takes memory and time on purpose, and a
/// flood of them must not exhaust the host.
#[derive(Clone)]
pub struct Passwords(Arc<HashingPool>);

struct HashingPool {
    turns: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    /// Memory that was used to hash a password, kept for the next one: at most one piece per
    /// permit. If it were freed, the allocator would keep a piece of this size per thread.
    memory: Mutex<Vec<Vec<Block>>>,
}

impl HashingPool {
    /// Calls `work` with the memory for one password.
    fn with_memory<T>(&self, work: impl FnOnce(&mut Vec<Block>) -> T) -> T {
        let kept = self.memory.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut memory = kept.unwrap_or_else(|| vec![Block::new(); MEMORY_KIB as usize]);
        let result = work(&mut memory);
        // A hash that another program made may need more.
        memory.truncate(MEMORY_KIB as usize);
        memory.shrink_to_fit();
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
        result
    }
}

impl Passwords {
    /// Hashes up to `at_once` passwords at the same time.
    pub fn new(at_once: usize) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self(Arc::new(HashingPool {
            turns: permits(at_once.max(1)),
            queue: permits(at_once.max(1) + WAITING),
            memory: Mutex::default(),
        }))
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordError> {
        let place =
            Arc::clone(&self.0.queue).try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let turn = tokio::time::timeout(TIMEOUT, Arc::clone(&self.0.turns).acquire_owned()).await;
        let turn = turn.map_err(|_| PasswordError::Busy)?.map_err(|_| PasswordError::Failed)?;
        // The work cannot be cancelled, so it keeps both permits until it ends: a caller that stops
        // waiting must not let another begin.
        let work = move || {
            let _permits = (place, turn);
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| PasswordError::Failed)
    }
}

#[async_trait]
impl PasswordHasher for Passwords {
    async fn hash(&self, password: String) -> Result<String, PasswordError> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|_| PasswordError::Failed)?;
        self.hash_with_salt(password, salt).await
    }

    async fn hash_with_salt(
        &self,
        password: String,
        salt: [u8; 16],
    ) -> Result<String, PasswordError> {
        if password.is_empty() || password.len() > MAX_PASSWORD_LEN {
            return Err(PasswordError::Length);
        }
        let pool = Arc::clone(&self.0);
        self.in_turn(move || pool.with_memory(|memory| hash(&password, salt, memory))).await?
    }

    async fn verify(&self, password: String, kept: Option<String>) -> Result<bool, PasswordError> {
        let fits = !password.is_empty() && password.len() <= MAX_PASSWORD_LEN;
        let pool = Arc::clone(&self.0);
        let work = move |memory: &mut Vec<Block>| {
            let password = if fits { password } else { String::new() };
            let known = kept.is_some();
            let hash = kept.or_else(|| decoy_hash(memory).cloned()).ok_or(PasswordError::Failed)?;
            let hash = PasswordHash::new(&hash).map_err(|_| PasswordError::Failed)?;
            let right = is_right(&password, &hash, memory);
            Ok(right && known && fits)
        };
        self.in_turn(move || pool.with_memory(work)).await?
    }
}

/// Whether the hash is of this password. The comparison takes constant time.
fn is_right(password: &str, hash: &PasswordHash, memory: &mut Vec<Block>) -> bool {
    let (Some(salt), Some(expected)) = (&hash.salt, &hash.hash) else { return false };
    let (Ok(algorithm), Ok(version), Ok(params)) = (
        Algorithm::try_from(hash.algorithm.as_str()),
        hash.version.map_or(Ok(Version::default()), Version::try_from),
        Params::try_from(hash),
    ) else {
        return false;
    };
    if memory.len() < params.block_count() {
        memory.resize(params.block_count(), Block::new());
    }
    let mut output = vec![0; expected.as_ref().len()];
    Argon2::new(algorithm, version, params)
        .hash_password_into_with_memory(password.as_bytes(), salt, &mut output, memory)
        .is_ok_and(|()| Output::new(&output).is_ok_and(|output| output == *expected))
}

fn hash(password: &str, salt: [u8; 16], memory: &mut [Block]) -> Result<String, PasswordError> {
    phc_of(password, &salt, memory).ok_or(PasswordError::Failed)
}

/// The hash of a password as a PHC string.
fn phc_of(password: &str, salt: &[u8], memory: &mut [Block]) -> Option<String> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).ok()?;
    let (algorithm, version) = (Algorithm::Argon2id, Version::V0x13);
    let mut output = [0; Params::DEFAULT_OUTPUT_LEN];
    Argon2::new(algorithm, version, params.clone())
        .hash_password_into_with_memory(password.as_bytes(), salt, &mut output, memory)
        .ok()?;
    let hash = PasswordHash {
        algorithm: algorithm.ident(),
        version: Some(version.into()),
        params: ParamsString::try_from(&params).ok()?,
        salt: Some(Salt::new(salt).ok()?),
        hash: Some(Output::new(&output).ok()?),
    };
    Some(hash.to_string())
}

/// The hash of a password that no account has. Verifying against it hides that an account is
/// unknown.
fn decoy_hash(memory: &mut [Block]) -> Option<&'static String> {
    // Static, because it is a constant that takes long to compute; it never changes.
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    HASH.get_or_init(|| hash("decoy", *b"the decoy's salt", memory).ok()).as_ref()
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passwords")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_known_by_its_hash_alone() {
        let passwords = Passwords::new(2);
        let hash = passwords.hash("correct horse".into()).await.unwrap();
        assert!(
            hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && !hash.contains("correct"),
            "{hash}"
        );
        assert_ne!(passwords.hash("correct horse".into()).await.unwrap(), hash, "salted");
        let right = |password: &str| passwords.verify(password.into(), Some(hash.clone()));
        assert_eq!(right("correct horse").await, Ok(true));
        for wrong in ["", "correct hors", "Correct horse", "correct horse\0", &"x".repeat(1 << 20)]
        {
            assert_eq!(right(wrong).await, Ok(false), "{} octets", wrong.len());
        }
        assert_eq!(passwords.verify("decoy".into(), None).await, Ok(false));
        for bad in ["", &"x".repeat(MAX_PASSWORD_LEN + 1)] {
            assert_eq!(passwords.hash(bad.into()).await, Err(PasswordError::Length));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_memory_for_hashing_is_allocated_once_per_turn() {
        let passwords = Passwords::new(2);
        let hash = passwords.hash("correct horse".into()).await.unwrap();
        let pieces = || -> Vec<*const Block> {
            let memory = passwords.0.memory.lock().unwrap();
            assert!(memory.iter().all(|piece| piece.len() == MEMORY_KIB as usize));
            memory.iter().map(Vec::as_ptr).collect()
        };
        for _ in 0..4 {
            let many = (0..8).map(|_| passwords.verify("correct horse".into(), Some(hash.clone())));
            let right = futures_util::future::join_all(many).await;
            assert!(right.iter().all(|right| *right == Ok(true)), "{right:?}");
            assert!((1..=2).contains(&pieces().len()));
        }
        let before = pieces();
        assert_eq!(passwords.verify("wrong".into(), None).await, Ok(false));
        assert!(pieces().iter().all(|piece| before.contains(piece)), "it is used again");
        // A hash that another program made, with more memory than ours.
        let dear = "$argon2id$v=19$m=32768,t=1,p=1$c29tZXNhbHQxMjM0NTY3OA$\
                    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(passwords.verify("wrong".into(), Some(dear.into())).await, Ok(false));
        assert!(pieces().len() <= 2);
    }

    #[tokio::test]
    async fn who_stops_waiting_does_not_let_another_begin() {
        let passwords = Passwords::new(1);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (ours, free) = (passwords.clone(), || passwords.0.turns.available_permits());
        let task = tokio::spawn(async move {
            let work = move || {
                let _ = begun.send(());
                let _ = ends.recv();
            };
            ours.in_turn(work).await
        });
        has_begun.await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(free(), 0);
        drop(end);
        let _turn = passwords.0.turns.acquire().await.unwrap();
    }

    #[tokio::test]
    async fn a_flood_is_refused_and_does_not_pile_up() {
        let passwords = Passwords::new(1);
        let _turn = passwords.0.turns.acquire().await.unwrap();
        let _places = passwords.0.queue.acquire_many(1 + 64).await.unwrap();
        assert_eq!(passwords.hash("one more".into()).await, Err(PasswordError::Busy));
    }
}
