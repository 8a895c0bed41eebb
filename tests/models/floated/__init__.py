"""Models of dynamic int8 and their float forms: which of two runtimes is nearer to what is rounded?"""
