//! Behaviour tests through the public interface.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod bans;
mod clicks;
mod clients;
mod commands;
mod crash;
mod crash_clicks;
mod domains;
mod erasure;
mod following;
mod harness;
mod hostile;
mod hostile_gen;
mod hostile_html;
mod limits;
mod moderation;
mod oidc;
mod oidc_provider;
mod oidc_real;
mod openapi;
mod operating;
mod outgoing;
mod passwords;
mod process;
mod prometheus;
mod races;
mod receiver;
mod rules;
mod safe_browsing;
mod safe_browsing_server;
mod same_answer;
mod screening;
mod sign_in;
mod states;
mod tags;
mod webhooks;
