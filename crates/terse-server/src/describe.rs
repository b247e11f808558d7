//! The macros with which handlers and bodies are described for the OpenAPI document.

#[cfg(not(feature = "openapi"))]
pub(crate) use terse_openapi_off::{ToSchema, path};
#[cfg(feature = "openapi")]
pub(crate) use utoipa::{ToSchema, path};
