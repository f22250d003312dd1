//! HTTP requests to addresses that the settings name.

mod client;
mod connector;

pub(crate) use client::{BoundedResponse, HttpClient};
