//! The cold tier with real daemons: payloads of far jobs are in a folder or in S3, and come back before the jobs are due.
//!
//! The clock of Redis is set forward, so that hours pass at once.

mod cold_stack;
mod figures;
mod folder;
mod s3;
mod s3_server;
mod storm;
