//! The dashboard: pages for people at `/ui` on the admin port, to look at queues and jobs and to act on them.
//!
//! ```text
//!  routes ─► visit ─► pages/PAGE ─► engine        a page is a list of blocks
//!               │         │
//!               │         └─► text, chart, links    how its parts are written
//!               ├─► layout    the whole page, once
//!               └─► stream    the blocks that have changed, once a second, while the page is open
//! ```
//!
//! The server writes all HTML. The script of a page replaces blocks that have changed, and nothing more: without it,
//! pages work and are brought up to date by loading them again. A change is a form that is sent with `POST`
//! (`form.rs`), and is logged with the account (`action.rs`). While no page is open, the dashboard sends no command to
//! Redis.

mod action;
mod assets;
mod chart;
mod error;
mod form;
mod history;
mod layout;
mod links;
mod page;
mod pages;
mod routes;
mod stream;
mod text;
mod visit;

pub(crate) use routes::router;
