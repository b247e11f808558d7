//! What a running server finds when it checks itself: its settings, its folder and its machine.

use crate::principal::{AccessError, Principal};
use crate::registry::Role;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CheckResult {
    /// As it should be.
    Good,
    /// It works, but probably not as intended.
    Warning,
    /// It does not work.
    Problem,
}

impl CheckResult {
    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Good, Self::Warning, Self::Problem].into_iter().find(|one| one.as_str() == word)
    }
}

/// The result of one check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// What was checked, such as `base_url`.
    pub what: String,
    /// How serious it is.
    pub verdict: CheckResult,
    /// What was found.
    pub found: String,
    /// How to solve the problem; empty for a good result.
    pub advice: String,
}

/// Checks the process that it runs in. The binary implements it: only the binary knows the settings
/// and the stores.
pub trait SelfCheck: Send + Sync {
    /// Runs all quick checks. Blocks on the disk.
    fn check(&self) -> Vec<Finding>;
}

/// Runs all checks. Only for admins. Blocks on the disk.
pub fn self_check(
    principal: &Principal,
    checks: &dyn SelfCheck,
) -> Result<Vec<Finding>, AccessError> {
    principal.require(Role::Admin)?;
    Ok(checks.check())
}

/// Finds nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoSelfCheck;

impl SelfCheck for NoSelfCheck {
    fn check(&self) -> Vec<Finding> {
        Vec::new()
    }
}
