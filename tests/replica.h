/* replica.h - what a subscriber to the events knows: the set of nodes that can be found.
 *
 * It is fed by the cache's event callback alone. Now and then it must be the same set as the model's, and as a dump
 * gives. It also tells the model the library's numbers of nodes, which only events show. */
#ifndef INCIPIT_TESTS_REPLICA_H
#define INCIPIT_TESTS_REPLICA_H

#include "naive.h"

#define REPLICA_NODE_COUNT_MAX 4096u
#define REPLICA_NEWS_COUNT_MAX 256u

typedef struct replica_node {
    uint32_t group_mask; /* 0: not known */
    icp_scope scope;
    uint32_t parent;
    uint32_t position;
    uint32_t blocks[NAIVE_GROUP_COUNT_MAX]; /* as they were when it was stored */
    naive_content content;
    icp_name name;
} replica_node;

/* A STORED event of the current operation. */
typedef struct replica_news {
    uint32_t node;
    uint32_t parent;
    uint32_t blocks[NAIVE_GROUP_COUNT_MAX];
} replica_news;

typedef struct replica {
    uint32_t group_count;
    uint32_t block_tokens;
    uint64_t sequence;
    uint64_t tick; /* of the last event */
    bool is_dump;  /* sequence numbers repeat */
    uint32_t news_count;
    replica_news news[REPLICA_NEWS_COUNT_MAX];
    char error[160];
    replica_node nodes[REPLICA_NODE_COUNT_MAX];
} replica;

void replica_open(replica *set, uint32_t group_count, uint32_t block_tokens, bool is_dump);

/* The cache's event callback; context is a replica. */
void replica_event(void *context, const icp_event *event);

/* After each operation: tells the model what the library calls the nodes that were stored. False: model->error. */
bool replica_settle(replica *set, naive *model);

/* The replica, the model and a dump are the same set. dump is scratch. False: model->error. */
bool replica_compare(replica *set, naive *model, replica *dump);

#endif
