use vestal_conversations::{ModelTotals, NewMessage, Totals};
use vestal_model::{AssistantMessage, Completion, Cost, CostSource, Usage};

use crate::{answer, begin, place, user};

/// The most that the database could count at all.
const ABSURD: u64 = u64::MAX >> 1;

fn totals(calls: u64, input: u64, micro_usd: u64, unpriced: u64) -> Totals {
    Totals { calls, usage: Usage { input, ..Usage::default() }, micro_usd, unpriced }
}

#[tokio::test]
async fn usage_is_counted_per_model_and_stays_when_turns_are_undone() {
    let place = place().await;
    let (id, other) = (begin(&place).await, begin(&place).await);
    let completion = Completion {
        message: AssistantMessage::default(),
        usage: Usage { input: 100, ..Usage::default() },
        cost: Cost::Known { micro_usd: 7, source: CostSource::Provider },
        provider: "acme".to_owned(),
        model: "small".to_owned(),
    };
    let unknown = Completion { cost: Cost::Unknown, ..completion.clone() };
    place.append(&id, &[user("a"), (&completion).into(), (&unknown).into()]).await.unwrap();
    let plain = NewMessage { usage: Some(Usage { input: 1, ..Usage::default() }), ..answer("b") };
    place.append(&other, &[plain]).await.unwrap();
    place
        .record_usage(&other, "acme", "small", &completion.usage, Some(completion.cost))
        .await
        .unwrap();
    place.undo(&id, 1).await.unwrap();
    let of = |model: &str, totals| ModelTotals {
        provider: "acme".to_owned(),
        model: model.to_owned(),
        totals,
    };
    let all = [of("small", totals(3, 300, 14, 1)), of("large", totals(1, 1, 0, 1))];
    assert_eq!(place.usage(None).await.unwrap(), all);
    assert_eq!(place.usage(Some(&id)).await.unwrap(), [of("small", totals(2, 200, 7, 1))]);
    assert_eq!(place.summary(&id).await.unwrap().totals, totals(2, 200, 7, 1));
}

#[tokio::test]
async fn absurd_counts_do_not_break_the_sums() {
    let place = place().await;
    let id = begin(&place).await;
    let usage = Usage {
        input: ABSURD,
        output: ABSURD,
        cache_read: ABSURD,
        cache_write: ABSURD,
        reasoning: ABSURD,
    };
    let cost = Some(Cost::Known { micro_usd: ABSURD, source: CostSource::Provider });
    for model in ["a", "b", "a"] {
        place.record_usage(&id, "acme", model, &usage, cost).await.unwrap();
    }
    assert_eq!(place.summary(&id).await.unwrap().totals.calls, 3);
    assert_eq!(place.usage(None).await.unwrap().len(), 2);
}
