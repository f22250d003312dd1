//! The commands of a first session.

use tidegate_local_deployment::credentials::{KEY, NAMESPACE};

/// The commands, for a shell.
pub(super) fn session(port: u16) -> String {
    let publish = |payload: &str, options: &str| {
        format!(
            r#"curl -s -H "$AUTH" -H 'Content-Type: application/json' -d '{payload}' "$API/queues/close-unpaid/jobs?{options}"; echo"#
        )
    };
    let settle = |verb: &str, lease: &str| {
        format!(r#"curl -s -H "$AUTH" -d '{{"leases":[{lease}]}}' $API/{verb}; echo"#)
    };
    let reserve = r#"LEASE=$(curl -s -H "$AUTH" -d '{"queues":["close-unpaid"],"wait":"10s"}' $API/reserve | tee /dev/stderr | sed 's/.*"lease":"\([^"]*\)".*/\1/'); echo"#;
    let failed = r#"{"lease":"'$LEASE'","error":"the shop is closed","retry_in":"2s"}"#;
    let lines = [
        format!("export TG_KEY={KEY}"),
        format!(
            r#"API=http://127.0.0.1:{port}/v1/{NAMESPACE} AUTH="Authorization: Bearer $TG_KEY""#
        ),
        publish(r#"{"order":17}"#, "key=order-17&delay=30m"),
        publish(
            r#"{"order":17,"by":"Ann"}"#,
            "key=order-17&delay=3s&if_exists=replace",
        ),
        reserve.to_owned(),
        settle("fail", failed),
        reserve.to_owned(),
        settle("ack", r#""'$LEASE'""#),
    ];
    lines.map(|line| line + "\n").concat()
}

#[cfg(test)]
mod tests;
