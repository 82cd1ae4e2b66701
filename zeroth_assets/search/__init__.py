"""Search: lexical and dense arms, fusion, reranking, the retriever."""
