//! Finds words, and tells of them conversation by conversation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use vestal_conversations::{ConversationId, Error, Hit, Scope, Seq, Store};

use super::{about, text};

/// Messages that are looked at for each conversation that is told of.
const DEPTH: usize = 12;

/// Messages that are told of for each conversation.
const MATCHES: usize = 4;

/// Words that are looked for one by one when no message has all of them.
const WORDS: usize = 8;

/// Letters of a word that says something by itself.
const SHORTEST: usize = 3;

/// Finds conversations in which words occur.
pub(super) async fn find(
    store: &Store,
    query: &str,
    only: Option<ConversationId>,
    current: &ConversationId,
    limit: usize,
) -> Result<Value, Error> {
    let without = only.is_none().then(|| current.clone());
    let scope = Scope { only, without };
    let depth = u32::try_from(limit * DEPTH).unwrap_or(u32::MAX);
    let mut hits = store.search_in(&scope, query, depth).await?;
    let all = !hits.is_empty();
    if !all {
        hits = any_word(store, &scope, query, depth).await?;
    }
    let mut results = Vec::new();
    for group in grouped(hits).into_iter().take(limit) {
        let Some(first) = group.first() else { continue };
        let mut told = about(store, &first.conversation).await?;
        told["matches"] = group.iter().take(MATCHES).map(view).collect();
        if group.len() > MATCHES {
            told["more_matches"] = (group.len() - MATCHES).into();
        }
        results.push(told);
    }
    let mut told = json!({"query": query, "results": results});
    if results_are_empty(&told) {
        told["note"] = "nothing was found; try fewer or other words".into();
    } else {
        if !all {
            told["note"] = "no message has all the words; these have some of them".into();
        }
        told["hint"] = "to read on, give `conversation` and the number of a `message`".into();
    }
    Ok(told)
}

fn results_are_empty(told: &Value) -> bool {
    told["results"].as_array().is_none_or(Vec::is_empty)
}

/// Finds messages that have some of the words; those with the most come first.
async fn any_word(
    store: &Store,
    scope: &Scope,
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
        for hit in store.search_in(scope, word, depth).await? {
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

fn view(hit: &Hit) -> Value {
    let snippet = hit
        .snippet
        .iter()
        .map(|piece| if piece.found { format!("**{}**", piece.text) } else { piece.text.clone() });
    json!({
        "message": hit.seq,
        "role": hit.role,
        "date": text::moment(hit.at),
        "text": snippet.collect::<String>(),
    })
}
