//! Turns a list of promises into tests.

use std::future::Future;
use std::time::Duration;

/// Longer than any promise takes: a store that hangs fails its test instead of stopping the suite.
const TIMEOUT: Duration = Duration::from_secs(120);

#[doc(hidden)]
#[macro_export]
macro_rules! promises {
    ($suite:ident, $fresh:path => $($promise:ident)*) => {
        $crate::promises! { $suite, $fresh, ::std::sync::Arc::new => $($promise)* }
    };
    // Each list of promises gets the given part of what `fresh` returns.
    ($suite:ident, $fresh:path, $($given:expr => $($promise:ident)*);+) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;
            $($(
                #[test]
                fn $promise() {
                    $crate::suite::prove(
                        stringify!($promise),
                        || $fresh(),
                        |fresh| $crate::$suite::$promise(($given)(fresh)),
                    );
                }
            )*)+
        }
    };
}

/// The same for a suite whose `fresh` returns two handles on one store. Promises of the first list
/// get the first handle, those of the second list both.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_promises {
    ($suite:ident, $fresh:path => $($promise:ident)*; two handles: $($shared:ident)*) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $promise() {
                    $crate::suite::prove(
                        stringify!($promise),
                        || $fresh(),
                        |(one, _other)| $crate::$suite::$promise(::std::sync::Arc::new(one)),
                    );
                }
            )*
            $(
                #[test]
                fn $shared() {
                    $crate::suite::prove(
                        stringify!($shared),
                        || $fresh(),
                        |(one, other)| $crate::$suite::$shared(
                            ::std::sync::Arc::new(one),
                            ::std::sync::Arc::new(other),
                        ),
                    );
                }
            )*
        }
    };
}

/// Runs one promise on a fresh store, with two threads so that races are real.
#[allow(clippy::unwrap_used, reason = "a suite of tests")]
pub fn prove<S, F, P>(name: &str, fresh: impl FnOnce() -> F, promise: impl FnOnce(S) -> P)
where
    F: Future<Output = Option<S>>,
    P: Future<Output = ()>,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match fresh().await {
            Some(store) => {
                tokio::time::timeout(TIMEOUT, promise(store)).await.expect("the store hangs");
            }
            None => eprintln!("SKIPPED {name}: no store is offered"),
        }
    });
}
