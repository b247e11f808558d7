//! The server's HTTP interface, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod account_erasure;
mod admin_pages;
mod api_keys;
mod authorisation;
mod branding;
mod clicks;
mod connection_pages;
mod create;
mod described;
mod fake;
mod fake_clicks;
mod focus;
mod home_page;
mod http;
mod languages;
mod layers;
mod limits;
mod link_form;
mod link_page;
mod links;
mod links_page;
mod live;
mod moderation;
mod owners;
mod pages;
mod qr_codes;
mod rankings;
mod reports;
mod resets;
mod revisions;
mod stats;
mod timing;
mod two_factor;
mod web;
mod webhooks;
