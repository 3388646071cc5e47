// In place of libcurl in the portable build: HDF5's driver for S3, which nothing here uses, finds that it cannot
// begin.
extern "C" {
int curl_global_init(long) { return 2; }  // CURLE_FAILED_INIT
void curl_global_cleanup() {}
void* curl_easy_init() { return nullptr; }
void curl_easy_cleanup(void*) {}
int curl_easy_perform(void*) { return 2; }
int curl_easy_setopt(void*, int, ...) { return 2; }
int curl_easy_getinfo(void*, int, ...) { return 2; }
const char* curl_easy_strerror(int) { return "not in this build"; }
void* curl_slist_append(void*, const char*) { return nullptr; }
void curl_slist_free_all(void*) {}
}
