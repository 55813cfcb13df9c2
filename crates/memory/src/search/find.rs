//! Finds words, and reports them conversation by conversation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use vestal_agent::redact::Redactor;
use vestal_conversations::{
    ConversationId, ConversationStore, Error, Hit, MessageStanding, SearchScope, Seq, Stored,
};

use super::about;

/// Messages that are looked at for each conversation that is reported.
const DEPTH: u32 = 12;

/// Messages that are reported for each conversation.
const MATCHES: usize = 4;

/// Words that are looked for one by one when no message has all of them.
const WORDS: usize = 8;

/// Letters of a word that says something by itself.
const SHORTEST: usize = 3;

/// Characters of a query, and of a message that is shown by its beginning.
const BEGINNING: usize = 400;

/// Finds conversations in which words occur.
pub(super) async fn find(
    (store, redactor): (&ConversationStore, &Redactor),
    query: &str,
    only: Option<ConversationId>,
    current: &ConversationId,
    limit: usize,
) -> Result<Value, Error> {
    let without = only.is_none().then(|| current.clone());
    let scope = SearchScope { only, without, each: Some(DEPTH) };
    let depth = u32::try_from(limit).unwrap_or(u32::MAX).saturating_mul(DEPTH);
    let mut hits = store.search(&scope, query, depth).await?;
    let all = !hits.is_empty();
    if !all {
        hits = any_word(store, &scope, query, depth).await?;
    }
    let mut results = Vec::new();
    for group in grouped(hits).into_iter().take(limit) {
        match of_one(store, redactor, &group).await {
            Ok(result) => results.push(result),
            // It was deleted meanwhile.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut result = json!({"query": super::beginning(query, BEGINNING), "results": results});
    if results_are_empty(&result) {
        result["note"] = "nothing was found; try fewer or other words".into();
    } else {
        if !all {
            result["note"] = "no message has all the words; these have some of them".into();
        }
        result["hint"] = "to read on, give `conversation` and the number of a `message`".into();
    }
    Ok(result)
}

fn results_are_empty(result: &Value) -> bool {
    result["results"].as_array().is_none_or(Vec::is_empty)
}

/// Finds messages that have some of the words; those with the most come first.
async fn any_word(
    store: &ConversationStore,
    scope: &SearchScope,
    query: &str,
    depth: u32,
) -> Result<Vec<Hit>, Error> {
    let words: BTreeSet<String> = query
        .split(|letter: char| letter.is_whitespace() || letter == '"')
        .filter(|word| word.chars().filter(|letter| letter.is_alphanumeric()).count() >= SHORTEST)
        .map(str::to_lowercase)
        .take(WORDS)
        .collect();
    if words.len() < 2 {
        return Ok(Vec::new());
    }
    let mut found: BTreeMap<(ConversationId, Seq), (usize, Hit)> = BTreeMap::new();
    for word in &words {
        for hit in store.search(scope, word, depth).await? {
            let place = (hit.conversation.clone(), hit.seq);
            found.entry(place).or_insert_with(|| (0, hit)).0 += 1;
        }
    }
    let mut found: Vec<(usize, Hit)> = found.into_values().collect();
    found.sort_by(|(a, one), (b, other)| b.cmp(a).then(other.at.cmp(&one.at)));
    Ok(found.into_iter().map(|(_, hit)| hit).collect())
}

/// Puts what is of one conversation together, in the order of the best of each.
fn grouped(hits: Vec<Hit>) -> Vec<Vec<Hit>> {
    let mut groups: Vec<Vec<Hit>> = Vec::new();
    for hit in hits {
        let own = groups.iter_mut().find(|group| {
            group.first().is_some_and(|first| first.conversation == hit.conversation)
        });
        match own {
            Some(group) => group.push(hit),
            None => groups.push(vec![hit]),
        }
    }
    groups
}

/// Reports what was found in one conversation.
async fn of_one(
    store: &ConversationStore,
    redactor: &Redactor,
    group: &[Hit],
) -> Result<Value, Error> {
    let Some(first) = group.first() else { return Ok(Value::Null) };
    let mut result = about(store, &first.conversation).await?;
    let mut matches = Vec::new();
    for hit in group.iter().take(MATCHES) {
        matches.push(view(store, redactor, hit).await?);
    }
    result["matches"] = matches.into();
    if group.len() > MATCHES {
        result["more_matches"] = true.into();
    }
    Ok(result)
}

/// Reports what stands around the words of a message. One that holds a secret is
/// shown by its beginning, masked: where words are marked in a secret, or one is
/// cut in two, nobody would know it for what it is.
async fn view(store: &ConversationStore, redactor: &Redactor, hit: &Hit) -> Result<Value, Error> {
    let stored = store.history_between(&hit.conversation, hit.seq, hit.seq).await?;
    let Some(stored) = stored.first() else {
        return Err(Error::NotFound { wanted: hit.conversation.to_string() });
    };
    let words = stored.message.text();
    let shown = if redactor.redact(&words) == words {
        hit.snippet
            .iter()
            .map(
                |piece| {
                    if piece.found { format!("**{}**", piece.text) } else { piece.text.clone() }
                },
            )
            .collect()
    } else {
        super::beginning(&super::text_of(&stored.message, redactor), BEGINNING)
    };
    Ok(json!({
        "message": hit.seq,
        "role": super::role(stored),
        "date": super::moment(hit.at),
        "text": shown,
    }))
}

/// Characters of a message: of the one that was asked for, and of the others.
const ASKED_FOR: usize = 6_000;
const OTHERS: usize = 1_200;

/// Characters of all together.
const TOGETHER: usize = 24_000;

/// Reads the messages around a message.
pub(super) async fn read(
    (store, redactor): (&ConversationStore, &Redactor),
    id: &ConversationId,
    message: Seq,
    around: usize,
) -> Result<Value, Error> {
    let stored = messages_of(store, id).await?;
    let Some(at) = stored.iter().position(|stored| stored.seq == message) else {
        return Err(Error::NoMessage { id: id.clone(), seq: message });
    };
    let range = at.saturating_sub(around)..at + around + 1;
    excerpt((store, redactor), id, &stored, range, Some(message)).await
}

/// Reads how a conversation began.
pub(super) async fn begin(
    (store, redactor): (&ConversationStore, &Redactor),
    id: &ConversationId,
    around: usize,
) -> Result<Value, Error> {
    let stored = messages_of(store, id).await?;
    excerpt((store, redactor), id, &stored, 0..2 * around + 1, None).await
}

/// Returns what was not taken back. Summaries stay: they are found like what they
/// stand for, and a branch may have nothing else of its beginning.
async fn messages_of(store: &ConversationStore, id: &ConversationId) -> Result<Vec<Stored>, Error> {
    let mut stored = store.history(id).await?;
    stored.retain(|stored| stored.standing != MessageStanding::Undone);
    Ok(stored)
}

async fn excerpt(
    (store, redactor): (&ConversationStore, &Redactor),
    id: &ConversationId,
    stored: &[Stored],
    range: std::ops::Range<usize>,
    asked_for: Option<Seq>,
) -> Result<Value, Error> {
    let range = range.start..range.end.min(stored.len());
    let mut room = TOGETHER;
    let mut messages = Vec::new();
    for stored in stored.get(range.clone()).unwrap_or_default() {
        let most = if asked_for == Some(stored.seq) { ASKED_FOR } else { OTHERS };
        let words = super::beginning(&super::text_of(&stored.message, redactor), most.min(room));
        room = room.saturating_sub(words.chars().count());
        messages.push(json!({
            "message": stored.seq,
            "role": super::role(stored),
            "date": super::moment(stored.at),
            "text": words,
        }));
    }
    let mut result = about(store, id).await?;
    result["messages"] = messages.into();
    result["before"] = range.start.into();
    result["after"] = stored.len().saturating_sub(range.end).into();
    Ok(result)
}
