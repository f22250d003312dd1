//! `tidegate namespace`, against the admin port of an API.

use serde_json::json;

use super::SERVER;
use super::command_line::CommandLine;

#[tokio::test]
async fn quotas_are_set_shown_listed_and_deleted() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "quotas").await;
    let admin = stack.api(0).admin_url();
    let command = |arguments: &[&str]| {
        let port = ["namespace", "--admin", admin.as_str()];
        [&port[..], arguments].concat().join(" ")
    };
    let json = |arguments: &[&str]| {
        let command = command(arguments);
        cli.json(&command.split(' ').collect::<Vec<&str>>())
    };
    let error = |code, arguments: &[&str]| {
        let command = command(arguments);
        cli.error(code, &command.split(' ').collect::<Vec<&str>>())
    };
    let set = json(&["set", "quotas", "jobs=1000", "publishes_per_second=50"]);
    assert_eq!(
        set["quota"],
        json!({"jobs": 1000, "publishes_per_second": 50})
    );
    let shown = json(&["show", "quotas"]);
    let limits = shown["limits"].as_array().unwrap();
    let jobs = limits.iter().find(|limit| limit["name"] == "jobs").unwrap();
    assert_eq!((&jobs["used"], &jobs["max"]), (&json!(0), &json!(1000)));
    assert!(json(&["ls"]).to_string().contains("\"quotas\""));
    json(&["rm", "quotas"]);
    assert_eq!(json(&["show", "quotas"])["quota"], json!({}));

    let twice = error(2, &["set", "quotas", "jobs=1", "jobs=2"]);
    assert!(twice.contains("jobs"), "{twice}");
    let unknown = error(1, &["set", "quotas", "workers=1"]);
    assert!(unknown.contains("workers"), "{unknown}");
    let zero = error(1, &["set", "quotas", "jobs=0"]);
    assert!(zero.contains("jobs"), "{zero}");
    error(2, &["set", "quotas", "jobs"]);
}
