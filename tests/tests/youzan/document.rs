//! Every example of `docs/youzan.md`: a block of `http`, and the answer as a block of `json` behind it.

use serde_json::Value;

use crate::fixture::YouzanStack;

const PAGE: &str = include_str!("../../../docs/youzan.md");
const EXAMPLES_MIN: usize = 11;

/// The text of the blocks of a language, in their order.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    let blocks = PAGE.split(begin.as_str()).skip(1);
    blocks
        .map(|rest| rest.split_once("```").expect("an end").0)
        .collect()
}

#[tokio::test]
async fn the_examples_of_the_page_are_answered_as_it_shows() {
    let YouzanStack { stack, client } = YouzanStack::start("").await;
    let (requests, answers) = (blocks("http"), blocks("json"));
    assert_eq!(requests.len(), answers.len());
    assert!(
        requests.len() >= EXAMPLES_MIN,
        "{} examples",
        requests.len()
    );
    for (request, expected) in requests.into_iter().zip(answers) {
        let (line, body) = request.split_once('\n').unwrap();
        let path = line.strip_prefix("POST ").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let answer = client.post(path, &body).await.expect(200);
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(answer.json(), expected, "{request}");
    }
    stack.finish().await;
}
