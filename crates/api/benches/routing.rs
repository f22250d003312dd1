//! The time to find the route of a request.

use std::hint::black_box;

use tidegate_api::api_label;

fn main() {
    divan::main();
}

#[divan::bench(args = [
    "/api/orders/close-unpaid",
    "/api/orders/close-unpaid/job/01HZX0000000000000000000AB",
    "/api/orders/close-unpaid/deadletter/size",
    "/favicon.ico",
])]
fn route(path: &str) -> &'static str {
    api_label(black_box(path))
}
