//! Real signals, which this process sends to itself.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test without a runtime, which fails by a panic"
)]

use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::raise;
use tidegate_stop_signals::{OF_DAEMONS, on_stop_requests};

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn signals_within_a_second_of_the_first_are_one_request() {
    let (sender, requests) = channel();
    on_stop_requests(OF_DAEMONS, move |signal| sender.send(signal).unwrap()).unwrap();
    for (first, others) in [(SIGTERM, [SIGTERM, SIGINT]), (SIGINT, [SIGINT, SIGTERM])] {
        raise(first).unwrap();
        let name = if first == SIGTERM {
            "SIGTERM"
        } else {
            "SIGINT"
        };
        assert_eq!(requests.recv_timeout(LIMIT), Ok(name));
        for other in others {
            raise(other).unwrap();
        }
        sleep(Duration::from_millis(1100));
        assert!(requests.try_recv().is_err(), "a further request");
    }
}
