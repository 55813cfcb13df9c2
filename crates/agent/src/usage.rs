//! What a conversation took, with what it gave to others.

use vestal_conversations::{ConversationId, Error, Filter, ModelTotals, ParentKind};

use crate::agent::Agent;

/// What a conversation took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationUsage {
    /// By model, the most tokens first; what was taken back included.
    pub own: Vec<ModelTotals>,
    /// What the children took that parts of the work were given to.
    pub children: ChildrenUsage,
}

/// What the children of a conversation took, and theirs, whatever became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildrenUsage {
    /// How many children there were.
    pub count: u64,
    /// By model, the most tokens first.
    pub models: Vec<ModelTotals>,
}

impl Agent {
    /// Returns what a conversation took, as the store knows it: so it is the same
    /// in every process, while a turn runs and after a crash.
    pub async fn usage(&self, id: &ConversationId) -> Result<ConversationUsage, Error> {
        let store = self.store();
        let own = store.usage(Some(id)).await?;
        let mut children = ChildrenUsage::default();
        for child in self.children(id).await? {
            children.count += 1;
            for taken in store.usage(Some(&child)).await? {
                add(&mut children.models, taken);
            }
        }
        children.models.sort_by_key(|taken| std::cmp::Reverse(taken.totals.usage.total()));
        Ok(ConversationUsage { own, children })
    }

    /// Returns those that a part of its work was given to, and those that a part
    /// of theirs was.
    async fn children(&self, id: &ConversationId) -> Result<Vec<ConversationId>, Error> {
        let filter = Filter {
            source: Some(crate::delegation::SOURCE.to_owned()),
            limit: u32::MAX,
            include_delegated: true,
            ..Filter::default()
        };
        let delegated: Vec<(ConversationId, ConversationId)> = self
            .store()
            .list(&filter)
            .await?
            .into_iter()
            .filter_map(|summary| {
                let parent = summary.conversation.parent?;
                let is_part = parent.kind == ParentKind::Delegation;
                Some((parent.id.filter(|_| is_part)?, summary.conversation.id))
            })
            .collect();
        let mut family = vec![id.clone()];
        let mut next = 0;
        while let Some(parent) = family.get(next).cloned() {
            let of_parent = delegated.iter().filter(|(of, _)| *of == parent);
            family.extend(of_parent.map(|(_, child)| child.clone()));
            next += 1;
        }
        family.remove(0);
        Ok(family)
    }
}

fn add(models: &mut Vec<ModelTotals>, taken: ModelTotals) {
    let same =
        |known: &&mut ModelTotals| known.provider == taken.provider && known.model == taken.model;
    match models.iter_mut().find(same) {
        Some(known) => known.totals += taken.totals,
        None => models.push(taken),
    }
}
