//! What a request to DynamoDB may fail with, by what the caller can do.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use terse_core::StoreError;

use crate::item::Item;

/// A request that failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The table or this process has too much to do. Nothing was written.
    Throttled(String),
    /// Another transaction works on one of the items. Nothing was written.
    Conflict,
    /// The condition of a single write does not hold; with the item, if there is one.
    Condition(Option<Box<Item>>),
    /// A transaction was cancelled because conditions do not hold. One entry per action: whether
    /// its condition failed, and with which item.
    Cancelled(Vec<FailedAction>),
    /// No answer, or an answer that says nothing. The write may have happened.
    Unknown(String),
    /// The server refuses the request, and would refuse it again.
    Refused(String),
}

/// What became of one action of a cancelled transaction.
#[derive(Debug, Default)]
pub(crate) struct FailedAction {
    pub(crate) has_failed: bool,
    pub(crate) item: Option<Item>,
}

impl Failure {
    /// The failure of a request without conditions.
    pub(crate) fn of<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let code = match &error {
            SdkError::ServiceError(answer) => answer.err().code().unwrap_or_default().to_owned(),
            // Nothing was sent: no credentials, or a request that cannot be built.
            SdkError::ConstructionFailure(_) => return Self::Refused(describe(error)),
            _ => return Self::Unknown(describe(error)),
        };
        match code.as_str() {
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "Throttling"
            | "RequestLimitExceeded"
            | "LimitExceededException"
            | "ReplicatedWriteConflictException" => Self::Throttled(describe(error)),
            "TransactionConflictException" => Self::Conflict,
            // The same transaction is under way, sent before.
            "TransactionInProgressException"
            | "InternalServerError"
            | "ServiceUnavailable"
            | "" => Self::Unknown(describe(error)),
            _ => Self::Refused(describe(error)),
        }
    }

    pub(crate) fn condition<E>(error: SdkError<E>, item: Option<Item>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        match error.as_service_error().and_then(ProvideErrorMetadata::code) {
            Some("ConditionalCheckFailedException") => Self::Condition(item.map(Box::new)),
            _ => Self::of(error),
        }
    }

    /// From the reasons of a cancelled transaction: code and item of each action.
    pub(crate) fn cancelled<'a>(
        reasons: impl IntoIterator<Item = (Option<&'a str>, Option<&'a Item>)>,
    ) -> Self {
        let (mut actions, mut any, mut busy, mut other) = (Vec::new(), false, None, None);
        for (code, item) in reasons {
            let has_failed = code == Some("ConditionalCheckFailed");
            any |= has_failed;
            match code {
                None | Some("None" | "ConditionalCheckFailed") => {}
                Some("TransactionConflict") => busy = Some(Self::Conflict),
                Some(code @ ("ProvisionedThroughputExceeded" | "ThrottlingError")) => {
                    busy = Some(Self::Throttled(code.to_owned()));
                }
                Some(code) => other = Some(Self::Refused(code.to_owned())),
            }
            actions.push(FailedAction { has_failed, item: item.cloned() });
        }
        // Only a failed condition says what is stored. A conflict says nothing about it.
        match (any, other, busy) {
            (true, ..) => Self::Cancelled(actions),
            (false, Some(other), _) => other,
            (false, None, Some(busy)) => busy,
            (false, None, None) => Self::Conflict,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Throttled(why) => {
                tracing::debug!(why, "DynamoDB is throttled");
                Self::Busy
            }
            Failure::Conflict => Self::Busy,
            Failure::Condition(_) | Failure::Cancelled(_) => Self::Conflict,
            Failure::Unknown(why) | Failure::Refused(why) => Self::Unavailable(why.into()),
        }
    }
}

pub(crate) fn timed_out(after: Duration) -> Failure {
    Failure::Unknown(format!("DynamoDB has not answered within {} ms", after.as_millis()))
}

/// What the service said, or what failed on the way to it, down to the cause.
fn describe<E>(error: SdkError<E>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    if let Some(said) = error.as_service_error() {
        let (code, message) = (said.code().unwrap_or_default(), said.message().unwrap_or_default());
        return format!("{code}: {message}");
    }
    chain(&error)
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(codes: &[&str]) -> Failure {
        Failure::cancelled(codes.iter().map(|code| (Some(*code), None)))
    }

    #[test]
    fn only_a_failed_condition_says_what_is_stored() {
        assert!(matches!(outcome(&["None", "TransactionConflict"]), Failure::Conflict));
        assert!(matches!(outcome(&["ThrottlingError", "None"]), Failure::Throttled(_)));
        assert!(matches!(outcome(&["ValidationError", "None"]), Failure::Refused(_)));
        let both = outcome(&["TransactionConflict", "ConditionalCheckFailed"]);
        let Failure::Cancelled(actions) = both else { panic!("{both:?}") };
        assert_eq!([actions[0].has_failed, actions[1].has_failed], [false, true]);
    }

    #[test]
    fn throttling_is_busy_and_an_unknown_outcome_is_unavailable() {
        assert!(matches!(StoreError::from(Failure::Throttled("x".into())), StoreError::Busy));
        assert!(matches!(StoreError::from(Failure::Conflict), StoreError::Busy));
        let unknown = StoreError::from(Failure::Unknown("x".into()));
        assert!(matches!(unknown, StoreError::Unavailable(_)));
    }
}
