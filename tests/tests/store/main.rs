//! The verbs of the store against a real Redis, at moments that the tests choose.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that fails should say so at once"
)]

mod all_orders;
mod api_keys;
mod audit;
mod audit_large;
mod audit_namespaces;
mod audit_schedules;
mod audit_under_load;
mod bulk_turns;
mod chunks;
mod clock;
mod cold;
mod corrupt;
mod durability;
mod far_levels;
mod fixture;
mod forgotten_queues;
mod freezing;
mod full_memory;
mod groups;
mod groups_edges;
mod groups_random;
mod hints;
mod idle_connections;
mod interleavings;
mod key_lanes;
mod keyed;
mod lanes;
mod lanes_random;
mod largest_calls;
mod limits;
mod list_jobs;
mod list_queues;
mod lost_answers;
mod max_running;
mod messages;
mod model;
mod model_native;
mod other_runtime;
mod outside_bodies;
mod policies;
mod priorities;
mod pump_verbs;
mod queue_sizes;
mod random_cases;
mod rates;
mod refused_connections;
mod registrations;
mod relay_reports;
mod replaced_bodies;
mod schedule_turns;
mod schedules;
mod slot_width;
mod slow_uploads;
mod stale_hints;
mod stalled_transfers;
mod turns;
mod verbs;
mod waiting_process;
mod workers;
mod wrong_counts;
