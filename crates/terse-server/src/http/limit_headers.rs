//! The `RateLimit` headers of an answer.

use axum::http::{HeaderMap, HeaderValue, header};
use terse_core::limits::LimitDecision;

/// Adds how much of a limit is left and, if nothing is, when to try again. Without a limit it adds
/// nothing.
pub(crate) fn add(decision: &LimitDecision, headers: &mut HeaderMap) {
    if decision.limit == 0 {
        return;
    }
    headers.insert("ratelimit-limit", decision.limit.into());
    headers.insert("ratelimit-remaining", decision.remaining.into());
    headers.insert("ratelimit-reset", decision.reset_seconds().into());
    if !decision.allowed {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(decision.retry_seconds()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_limit_tells_nothing() {
        let mut headers = HeaderMap::new();
        add(&LimitDecision::UNLIMITED, &mut headers);
        assert!(headers.is_empty());
    }
}
